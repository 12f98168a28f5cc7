"""What packages of an environment need, and do not find there or behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def installed(path: Sequence[str]) -> dict[str, str]:
    """Version of each package by its name; of those that are there twice the first is imported."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions(path=list(path)):
        if name := distribution.metadata["Name"]:  # none in what a broken removal left
            found.setdefault(canonicalize_name(name), distribution.version)
    return found


def unmet(own: str, behind: Sequence[str]) -> list[str]:
    """Requirements of the environment's own packages that do not hold.

    All of a package that is to be replaced, so that what comes for one of them suits the others.
    """
    ours, seen = installed([own]), installed([own, *behind])
    needs: dict[str, list[Requirement]] = {}
    for distribution in metadata.distributions(path=[own]):
        for need in map(Requirement, distribution.requires or ()):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                needs.setdefault(canonicalize_name(need.name), []).append(need)
    wanted = [each for each in needs.values() if not all(_holds(need, ours, seen) for need in each)]
    return sorted(str(need) for each in wanted for need in each)


def _holds(need: Requirement, ours: Mapping[str, str], seen: Mapping[str, str]) -> bool:
    name = canonicalize_name(need.name)
    if need.url:  # what is behind came from elsewhere
        return name in ours
    return name in seen and need.specifier.contains(seen[name], prereleases=True)
