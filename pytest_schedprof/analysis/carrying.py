"""What a scheduler carries, as it follows from what tasks cost it on clusters of several sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log, sqrt
from operator import attrgetter
from statistics import fmean, stdev

from pytest_schedprof.analysis.costs import DRIFT
from pytest_schedprof.analysis.growth import MIN_SCALES, exponent
from pytest_schedprof.analysis.laws import Fit, fit
from pytest_schedprof.analysis.student import MANY, bound_at
from pytest_schedprof.analysis.sweeps import cost_of, slower
from pytest_schedprof.model.capacity import (
    AtSize,
    Bounds,
    Carried,
    Change,
    Forecast,
    Growth,
    Measured,
    Most,
    Point,
    Saturation,
    Sweeps,
)
from pytest_schedprof.model.metric import TIME, Metric, readable

SECONDS = Metric(TIME, "")

WORDS = {
    "1": "{}",
    "once": "{} divided by the number of workers",
    "log": "{} for each factor of e in the number of workers",
    "root": "{} times the root of the number of workers",
    "size": "{} for each worker",
}

COST, STALL, LAG, MEMORY = map(attrgetter, ("cost", "stall", "lag", "memory"))


def carried(
    measured: Measured, sizes: Sequence[int], durations: Sequence[float], bounds: Bounds
) -> Carried:
    """Return what a scheduler carries.

    Args:
        measured: what was measured of it.
        sizes: numbers of workers to forecast, beside those that were measured.
        durations: seconds that tasks take, for which to tell when a core is full.
        bounds: what its event loop must keep.
    """
    points = measured.workers
    cost = cost_law(points, measured.sweeps)
    stall, lag, memory = (fit(least(points, figure)) for figure in (STALL, LAG, MEMORY))
    threads = points[0].threads // points[0].workers
    counts = [each.workers for each in points]
    cheapest = min(sorted(set(counts)), key=cost.at)
    passed = [("stall", bounds.stall, stall, STALL), ("lag", bounds.lag, lag, LAG)]
    return Carried(
        measured=measured,
        law=law_of(cost),
        rate=1 / cost.at(cheapest),
        rate_at=cheapest,
        sizes=tuple(
            AtSize(
                workers=size,
                threads=size * threads,
                cost=cost.forecast(size),
                stall=stall.forecast(size),
                lag=lag.forecast(size),
                memory=memory.forecast(size),
                is_measured=min(counts) <= size <= max(counts),
            )
            for size in sorted({*counts, *sizes})
        ),
        growth=tuple(_growth(measured)),
        saturation=tuple(
            Saturation(each, _saturated(each, threads, cost, points)) for each in durations
        ),
        most=tuple(
            Most(what, bound, fitted.where(bound), *measured_within(least(points, figure), bound))
            for what, bound, fitted, figure in passed
            if any(figure(each) for each in points)  # in virtual time there is no lag
        ),
    )


def cost_law(points: Sequence[Point], sweeps: Sweeps | None) -> Fit:
    """Return how the cost of a task depends on the number of workers.

    If it was counted what the scheduler does for each worker, nothing else grows with their number.
    """
    if sweeps is None:
        return fit(least(points, COST))
    most = max(each.workers for each in points)
    return fit(least(points, COST), cost_of(sweeps), lambda size: slower(sweeps.looks, size, most))


def least(points: Sequence[Point], figure: Callable[[Point], float]) -> list[tuple[int, float]]:
    """Return each number of workers with the least figure of its clusters.

    Other processes of the machine add to a figure, by another amount each time, and never take
    anything away.
    """
    found: dict[int, float] = {}
    for each in points:
        found[each.workers] = min(figure(each), found.get(each.workers, float("inf")))
    return sorted(found.items())


def measured_within(figures: Sequence[tuple[int, float]], bound: float) -> tuple[int, int]:
    """Return the largest size that keeps a bound and the smallest that does not; 0 for none."""
    passed = min((size for size, figure in figures if figure > bound), default=0)
    kept = (size for size, _ in figures if not passed or size < passed)
    return max(kept, default=0), passed


def law_of(fitted: Fit) -> str:
    """Return how the cost of a task depends on the number of workers, in words."""
    best = fitted.best
    parts = zip(best.terms, best.coefficients, strict=True)
    told = " + ".join(WORDS[term].format(readable(value, SECONDS)) for term, value in parts)
    if len(best.terms) == 1:
        told += ", whatever the number of workers"
    return told + (", and what it does for each worker" if fitted.known(1.0).value else "")


def _saturated(seconds: float, threads: int, cost: Fit, points: Sequence[Point]) -> Forecast:
    """Return how many threads fill one core of the scheduler, if tasks take so long."""
    idle = fmean(each.idle for each in points)
    found = cost.where(1.0, lambda size, value: size * threads * value / seconds + idle)
    return Forecast(found.value * threads, found.low * threads, found.high * threads)


def _growth(measured: Measured) -> list[Growth]:
    found = []
    for what in ("workers", "tasks", "prefixes"):
        points: tuple[Point, ...] = getattr(measured, what)
        sizes = [int(getattr(each, what)) for each in points]
        if len(set(sizes)) >= MIN_SCALES:
            costs = [(size, each.cost) for size, each in zip(sizes, points, strict=True)]
            slope = exponent(costs, 0, DRIFT)
            bounds = Forecast(slope.value, slope.low, slope.high)
            found.append(Growth(what, min(sizes), max(sizes), bounds))
    return found


def changes(here: Measured, there: Measured) -> tuple[Change, ...]:
    """Return the cost of a task here as a multiple of that there, at each size.

    Rounds of both sides ran in turns, so each is compared with its neighbour.
    """
    found = []
    for workers in sorted({each.workers for each in here.workers}):
        mine, theirs = (
            [cost for each in side.workers if each.workers == workers for cost in each.cpu]
            for side in (here, there)
        )
        logs = [log(a / b) for a, b in zip(mine, theirs, strict=True)]
        found.append(Change(workers, _ratio(logs)))
    return tuple(found)


def _ratio(logs: Sequence[float]) -> Forecast:
    """Return the geometric mean of ratios with its bounds."""
    middle = fmean(logs)
    if len(logs) < 3:
        half = DRIFT * bound_at(MANY)
    else:
        half = stdev(logs) / sqrt(len(logs)) * bound_at(len(logs) - 1)
    return Forecast(exp(middle), exp(middle - half), exp(middle + half))
