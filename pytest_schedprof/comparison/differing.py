"""Find the settings that differ between two measurements: they are what is compared."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_schedprof.model.comparison import Setting
from pytest_schedprof.model.environment import ClusterFacts, Environment
from pytest_schedprof.model.result import Result

UNSET = "default"
"""Value of an option that only the other side has."""

DASKS = "config."
"""Start of the names of cluster options that are options of dask."""

SECTION = "distributed.scheduler."
"""Section of dask's options that records have as the scheduler's configuration."""


def differing_settings(before: Result, after: Result) -> tuple[Setting, ...]:
    """Return the settings that differ, by what was given for the clusters and what was found there.

    What was found counts if a setting is known by both. What only one side knows differs only if it
    was given: the options of two releases are not the same.
    """
    pairs = _given(before.cluster, after.cluster)
    one, other = _found(before), _found(after)
    pairs |= {name: (one[name], other[name]) for name in one if name in other}
    return tuple(Setting(name, *pair) for name, pair in pairs.items() if pair[0] != pair[1])


def _given(before: ClusterFacts | None, after: ClusterFacts | None) -> dict[str, tuple[str, str]]:
    """Return each cluster option with its values; none if either record lacks them."""
    if not (before and after) or before.options is None or after.options is None:
        return {}
    one, other = (_named(side.options or {}) for side in (before, after))
    names = sorted(one.keys() | other.keys())
    return {name: (one.get(name, UNSET), other.get(name, UNSET)) for name in names}


def _named(options: Mapping[str, str]) -> dict[str, str]:
    """Return options with dask's own names for those of dask."""
    return {name.removeprefix(DASKS): value for name, value in options.items()}


def _found(result: Result) -> dict[str, str]:
    cluster, environment = result.cluster, result.environment
    found: dict[str, str] = {}
    if cluster:
        found |= {"workers": str(cluster.workers), "threads": cluster.threads_per_worker}
    if environment:
        found |= _found_on_scheduler(environment)
    return found


def _found_on_scheduler(environment: Environment) -> dict[str, str]:
    found = {"Python": environment.minor_python}
    if environment.event_loop:
        found["distributed.admin.event-loop"] = environment.event_loop
    found["compiled modules"] = " ".join(environment.compiled) or "none"
    options = sorted(environment.configuration.items())
    return found | {f"{SECTION}{name}": value for name, value in options}
