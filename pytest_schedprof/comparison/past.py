"""The past of a test: its earlier runs in the same setting, which tell how much figures vary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pytest_schedprof.analysis.usual import LEAST_RUNS, Usual, scatter_of_count, usual
from pytest_schedprof.comparison.differing import differing_settings
from pytest_schedprof.comparison.figures import Figures
from pytest_schedprof.comparison.matching import Measurement, obstacle, obstacle_to_time


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
