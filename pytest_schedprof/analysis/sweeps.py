"""What a scheduler does for each worker while it works on one task, and what that costs.

How many bytecodes that are follows from exact counts on small clusters: they grow in proportion
with the number of workers. How long each takes does not follow from small clusters, whose workers
fit the processor's caches. It is timed on the objects of as many workers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from math import log
from statistics import median

from pytest_schedprof.analysis.laws import NOTHING
from pytest_schedprof.model.capacity import Forecast, Look, Sweeps
from pytest_schedprof.model.profile import Function

Counted = tuple[int, Mapping[Function, float]]
"""A number of workers, and the bytecodes per task of each function there."""

STEEP = 0.7
"""Least exponent of a function that does something for each worker."""

STRAIGHT = 0.05
"""How far, relatively, the sizes between the smallest and the largest may lie from a line."""

LEAST_PART = 0.002
"""Part of all bytecodes, at the largest size, below which growth of a function is chance."""


def growing(counted: Sequence[Counted]) -> dict[Function, float]:
    """Return the functions that do something for each worker: bytecodes per task and worker."""
    few, *between, many = sorted(counted, key=_size)
    least = LEAST_PART * sum(many[1].values())
    found: dict[Function, float] = {}
    for name, most in many[1].items():
        first = few[1].get(name, 0.0)
        slope = (most - first) / (many[0] - few[0])
        is_steep = most > least and most >= (many[0] / few[0]) ** STEEP * first
        line = [(first + slope * (size - few[0]), of.get(name, 0.0)) for size, of in between]
        if is_steep and all(abs(there - here) <= STRAIGHT * here for here, there in line):
            found[name] = slope
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _size(counted: Counted) -> int:
    return counted[0]


def sweeps_of(counted: Sequence[Counted], looks: Mapping[int, Sequence[float]]) -> Sweeps:
    """Return what is done for each worker."""
    found = growing(counted)
    return Sweeps(
        bytecodes=sum(found.values()),
        functions=tuple(found),
        looks=tuple(Look(size, tuple(looks[size])) for size in sorted(looks)),
    )


def cost_of(sweeps: Sweeps) -> Callable[[float], Forecast]:
    """Return a function that tells the seconds of a task for a number of workers."""
    if not sweeps.bytecodes:
        return lambda size: NOTHING
    return lambda size: _scaled(time_at(sweeps.looks, size), sweeps.bytecodes * size)


def slower(looks: Sequence[Look], size: float, than: float) -> float:
    """Return how much longer a bytecode of a sweep usually takes than on a smaller cluster.

    What is not done for each worker is slower by less: a part of its objects is in the caches. How
    much less, no small cluster tells. So this is a bound.
    """
    usual = [Look(each.workers, (median(each.seconds),)) for each in looks]
    return max(1.0, time_at(usual, size).value / time_at(usual, than).value) if usual else 1.0


def time_at(looks: Sequence[Look], size: float) -> Forecast:
    """Return the seconds of a bytecode, between two sizes by the logarithm of the size."""
    sizes = [each.workers for each in looks]
    place = bisect_left(sizes, size)
    if place in (0, len(looks)):
        return _time(looks[min(place, len(looks) - 1)])
    before, after = looks[place - 1], looks[place]
    part = log(size / before.workers) / log(after.workers / before.workers)
    low, high = _time(before), _time(after)
    return Forecast(
        low.value + part * (high.value - low.value),
        low.low + part * (high.low - low.low),
        low.high + part * (high.high - low.high),
    )


def _time(look: Look) -> Forecast:
    """Return the shortest time: other processes only add to it, as to the cost of a task."""
    return Forecast(min(look.seconds), min(look.seconds), max(look.seconds))


def _scaled(forecast: Forecast, factor: float) -> Forecast:
    return Forecast(*(factor * each for each in (forecast.value, forecast.low, forecast.high)))
