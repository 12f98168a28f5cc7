"""Find unmet requirements of the packages in an environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name


def installed(path: Sequence[str]) -> dict[str, str]:
    """Return the version of each package; of duplicates the first, which is the one imported."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions(path=list(path)):
        if name := distribution.metadata["Name"]:  # a broken removal leaves metadata without a name
            found.setdefault(canonicalize_name(name), distribution.version)
    return found


def unmet(own: str, behind: Sequence[str], asked: Sequence[str] = ()) -> list[str]:
    """Return the requirements of the environment's own packages that are not met.

    If one requirement on a package is not met, all requirements on it are returned, so that the
    installed version satisfies all of them.

    Args:
        own: directory of the environment's own packages.
        behind: directories of packages that the environment also sees.
        asked: what was asked for, in the form that pip accepts; its extras count.
    """
    ours, seen = installed([own]), installed([own, *behind])
    needs: dict[str, list[Requirement]] = {}
    for need in _needs_of(own, asked):
        needs.setdefault(canonicalize_name(need.name), []).append(need)
    wanted = [each for each in needs.values() if not all(_holds(need, ours, seen) for need in each)]
    return sorted(str(need) for each in wanted for need in each)


def _needs_of(own: str, asked: Sequence[str]) -> list[Requirement]:
    """Return what the environment's own packages require, with the extras that are required."""
    extras: dict[str, set[str]] = {}
    packages = list(metadata.distributions(path=[own]))
    found: list[Requirement] = []
    known = -1
    _add_extras(extras, _requirements(asked))
    while known != sum(map(len, extras.values())):  # an extra may require further ones
        known = sum(map(len, extras.values()))
        found = [need for package in packages for need in _needs_of_package(package, extras)]
        _add_extras(extras, found)
    return found


def _add_extras(extras: dict[str, set[str]], requirements: Iterable[Requirement]) -> None:
    for each in requirements:
        extras.setdefault(canonicalize_name(each.name), set()).update(each.extras)


def _requirements(asked: Sequence[str]) -> Iterator[Requirement]:
    """Yield the requirements that have a name: neither options nor bare URLs."""
    for each in asked:
        with suppress(InvalidRequirement):
            yield Requirement(each)


def _needs_of_package(
    package: metadata.Distribution, extras: Mapping[str, set[str]]
) -> Iterator[Requirement]:
    wanted = {"", *extras.get(canonicalize_name(package.metadata["Name"] or ""), ())}
    for need in map(Requirement, package.requires or ()):
        if need.marker is None or any(need.marker.evaluate({"extra": each}) for each in wanted):
            need.marker = None  # an installer would evaluate it without the extras
            yield need


def _holds(need: Requirement, ours: Mapping[str, str], seen: Mapping[str, str]) -> bool:
    name = canonicalize_name(need.name)
    if need.url:  # a version seen behind the environment has another source
        return name in ours
    return name in seen and need.specifier.contains(seen[name], prereleases=True)
