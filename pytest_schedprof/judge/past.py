"""The past of a test: its earlier runs in the same setting, which tell how much figures vary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

from pytest_schedprof.judge.contrast import Policy
from pytest_schedprof.judge.figures import Figures
from pytest_schedprof.judge.matching import Measurement, obstacle, obstacle_to_time
from pytest_schedprof.judge.series import LEAST_RUNS, Usual, counts_from, scatter_of_count, usual
from pytest_schedprof.model.comparison import Origin, Setting, Thresholds
from pytest_schedprof.model.result import ClusterFacts, Environment, Result

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


@dataclass(frozen=True)
class Past:
    """Figures of one test in earlier runs, the oldest first."""

    runs: tuple[Figures, ...]

    @property
    def is_long_enough(self) -> bool:
        """Whether it shows how much figures vary."""
        return len(self.runs) >= LEAST_RUNS

    def between(self, metric: str, subject: str) -> float:
        """Return the standard deviation of a count per task between runs."""
        return scatter_of_count([each.get(subject, 0.0) for each in self._counts(metric)])

    def _counts(self, metric: str) -> Sequence[Mapping[str, float]]:
        """Return the counts per task of each run by function; the whole is the empty name."""
        if metric not in self._known:
            self._known[metric] = [_counts(each, metric) for each in self.runs]
        return self._known[metric]

    @cached_property
    def _known(self) -> dict[str, Sequence[Mapping[str, float]]]:
        return {}

    @cached_property
    def cpu(self) -> Usual:
        """What is usual for the CPU time per task."""
        return self._usual(lambda run: run.cpu.value)

    def share(self, subject: str) -> Usual:
        """Return what is usual for a share."""
        return self._usual(lambda run: share_in(run, subject))

    def cost(self, subject: str) -> Usual:
        """Return what is usual for the CPU time per task of a function or an owner."""
        return self._usual(lambda run: cost_in(run, subject))

    def _usual(self, value: Callable[[Figures], float]) -> Usual:
        return usual([value(run) for run in self.runs])


def alike(earlier: Sequence[Measurement], after: Measurement) -> list[Measurement]:
    """Return the measurements that measured the same in the same setting, in their order.

    CPU time and shares need the same machine too.
    """
    is_timed = after.of.shares is not None
    return [
        each
        for each in earlier
        if not obstacle(each, after)
        and not differing_settings(each.result, after.result)
        and not (is_timed and obstacle_to_time(each, after))
    ]


def past_of(earlier: Sequence[Measurement]) -> Past:
    """Return the past of a test from measurements that are alike, the newest first."""
    return Past(tuple(each.figures() for each in reversed(earlier)))


def _counts(run: Figures, metric: str) -> dict[str, float]:
    found = {name: figure.value for name, figure in run.exact(metric).items()}
    if whole := run.whole(metric):
        found[""] = whole.value
    return found


def share_in(run: Figures, subject: str) -> float:
    """Return a share; 0 if the function was not seen."""
    found = run.shares.get(subject)
    return found.value if found else 0.0


def cost_in(run: Figures, subject: str) -> float:
    """Return the CPU time per task of a function or an owner."""
    return share_in(run, subject) * run.busy * run.cpu.value


def thresholds_of(
    after: Figures, past: Past | None, policy: Policy, timed: int
) -> Thresholds | None:
    """Return the origin of the thresholds; None if all figures are the same in each run.

    Args:
        after: figures that were judged.
        past: the earlier runs, None if they were not looked for.
        policy: how certain a change must be.
        timed: number of figures that were judged together by statistical tests.
    """
    if after.is_reproduced and not timed:
        return None
    runs = None if past is None else len(past.runs)
    if past is None or not past.is_long_enough:
        return Thresholds(Origin.CONSTANTS, runs)
    if not timed or not past.cpu.level:
        return Thresholds(Origin.PAST, runs)
    rise = counts_from(past.cpu, sqrt(policy.alpha / timed)) / past.cpu.level
    scatter = past.cpu.scatter / past.cpu.level
    return Thresholds(Origin.PAST, runs, scatter, max(rise, policy.least_cpu_rise))
