"""What is usual for a figure in a series of runs: its level, and how much it varies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt
from statistics import median

from pytest_schedprof.analysis.change_points import NEIGHBOURS, scatter
from pytest_schedprof.analysis.student import critical

LEAST_RUNS = 10
"""Fewer runs do not show how much a figure varies between them."""

OF_LEVEL = 20
"""Runs whose median is the level. After a step, half as many runs pass until the level follows."""

RUNS_PER_FREEDOM = 3
"""A quantile of differences estimates a scatter as well as a third of as many values would."""

APART = (1, 2)
"""Distances of the runs whose differences show the scatter: noise that lasts from run to run makes
neighbours alike."""

DEPARTURES = 2.0
"""Standard deviations in the largest departure of a count in ten runs or more."""

EACH = 0.02
"""Largest chance that noise alone shows a change that counts, in each of the two runs that must
show it. Noise that lasts for days makes runs alike, so the square of a chance promises too much."""


@dataclass(frozen=True, slots=True)
class Usual:
    """What a series of runs tells of a figure."""

    level: float
    """The median of the runs, without the newest one."""
    newest: float
    """The figure of the newest run."""
    scatter: float
    """Standard deviation between runs. A step in the series does not raise it."""
    error: float
    """Standard error of the difference between one run and the level."""
    freedom: int
    """Degrees of freedom of that error."""


def usual(values: Sequence[float]) -> Usual:
    """Return what is usual for a figure.

    Args:
        values: one for each run, the newest last; `LEAST_RUNS` at least.
    """
    before = values[:-1][-OF_LEVEL:]
    found = _scatter(values)
    of_median = pi / 2 / len(before)
    return Usual(
        median(before),
        values[-1],
        found,
        found * sqrt(1 + of_median),
        max(1, len(values) // RUNS_PER_FREEDOM),
    )


def counts_from(found: Usual, chance: float = EACH) -> float:
    """Return the smallest change from the level that counts, if two runs show it.

    Args:
        found: what is usual.
        chance: that noise alone shows it in one run; smaller if many figures are judged together.
    """
    return found.error * critical(min(EACH, chance), found.freedom)


def departure(values: Sequence[float]) -> float:
    """Return how far any run departed from the runs around it, and came back.

    A step is no departure, because it stays; so the last runs do not count yet. An exact figure has
    none, however often its code was changed.
    """
    if min(values) == max(values):
        return 0.0
    around = range(len(values) - NEIGHBOURS + 1)
    return max((_from_median(values[at : at + NEIGHBOURS]) for at in around), default=0.0)


def scatter_of_count(values: Sequence[float]) -> float:
    """Return the standard deviation of a count between runs: 0 if no run departed."""
    found = departure(values)
    return max(found / DEPARTURES, _scatter(values)) if found else 0.0


def _scatter(values: Sequence[float]) -> float:
    return max(scatter(values, apart) for apart in APART)


def _from_median(window: Sequence[float]) -> float:
    return abs(window[NEIGHBOURS // 2] - median(window))
