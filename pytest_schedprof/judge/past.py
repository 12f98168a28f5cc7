"""The past of a test: its earlier runs in the same setting, which tell how much figures vary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

from pytest_schedprof.judge.contrast import Policy
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.judge.matching import obstacle, obstacle_to_time
from pytest_schedprof.judge.series import LEAST_RUNS, Usual, counts_from, scatter_of_count, usual
from pytest_schedprof.model.comparison import Origin, Setting, Thresholds
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
    pairs: dict[str, tuple[str, str]] = {}
    if before.cluster and after.cluster:
        one, other = (
            {name.removeprefix(DASKS): value for name, value in (cluster.options or {}).items()}
            for cluster in (before.cluster, after.cluster)
        )
        names = sorted(one.keys() | other.keys())
        pairs = {name: (one.get(name, UNSET), other.get(name, UNSET)) for name in names}
    one, other = _measured_settings(before), _measured_settings(after)
    pairs |= {name: (one[name], other[name]) for name in one if name in other}
    return tuple(Setting(name, *pair) for name, pair in pairs.items() if pair[0] != pair[1])


def _measured_settings(result: Result) -> dict[str, str]:
    """Return the settings that were found in the cluster, not those that were given for it."""
    cluster, environment = result.cluster, result.environment
    settings: dict[str, str] = {}
    if cluster:
        settings |= {"workers": str(cluster.workers), "threads": cluster.threads_per_worker}
    if environment:
        settings["Python"] = environment.minor_python
        if environment.event_loop:
            settings["distributed.admin.event-loop"] = environment.event_loop
        settings["compiled modules"] = " ".join(environment.compiled) or "none"
        options = sorted(environment.configuration.items())
        settings |= {f"{SECTION}{name}": value for name, value in options}
    return settings


@dataclass(frozen=True)
class Past:
    """Figures of one test in earlier runs, the oldest first."""

    runs: tuple[Measurement, ...]

    @property
    def is_long_enough(self) -> bool:
        """Whether it shows how much figures vary."""
        return len(self.runs) >= LEAST_RUNS

    def between(self, metric: str, subject: str) -> float:
        """Return the standard deviation of a count per task between runs."""
        if metric not in self._counts:
            self._counts[metric] = [_counts(run, metric) for run in self.runs]
        return scatter_of_count([counts.get(subject, 0.0) for counts in self._counts[metric]])

    @cached_property
    def _counts(self) -> dict[str, Sequence[Mapping[str, float]]]:
        """Counts per task of each run by metric and function; the whole is the empty name."""
        return {}

    @cached_property
    def cpu(self) -> Usual:
        """What is usual for the CPU time per task."""
        return usual([run.cpu.value for run in self.runs])

    def share(self, subject: str) -> Usual:
        """Return what is usual for a share."""
        return usual([share_in(run, subject) for run in self.runs])

    def cost(self, subject: str) -> Usual:
        """Return what is usual for the CPU time per task of a function or an owner."""
        return usual([cost_in(run, subject) for run in self.runs])


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


def _counts(run: Measurement, metric: str) -> dict[str, float]:
    found = {name: figure.value for name, figure in run.exact(metric).items()}
    if whole := run.whole(metric):
        found[""] = whole.value
    return found


def share_in(run: Measurement, subject: str) -> float:
    """Return a share; 0 if the function was not seen."""
    found = run.shares.get(subject)
    return found.value if found else 0.0


def cost_in(run: Measurement, subject: str) -> float:
    """Return the CPU time per task of a function or an owner."""
    return share_in(run, subject) * run.busy * run.cpu.value


def thresholds_of(
    after: Measurement, past: Past | None, policy: Policy, timed: int
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
