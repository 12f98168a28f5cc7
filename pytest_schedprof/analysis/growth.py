"""Growth of costs with the size of a workload: the slope of a log-log fit."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from statistics import fmean

from pytest_schedprof.analysis.student import MANY, bound_at
from pytest_schedprof.model.verdict import Estimate

MIN_SCALES = 2
"""A line cannot be fitted to fewer points."""

MOST = 99.0
"""Upper bound of an exponent that cannot be bounded."""

DIGITS = 9
"""Digits to which an exponent is rounded: further ones are rounding errors of logarithms."""


def exponent(points: Sequence[tuple[int, float]], tasks: int, drift: float) -> Estimate:
    """Fit the `b` of `amount = a * scale ** b` by least squares of the logarithms.

    Args:
        points: scales and amounts. If the amount is 0 at some scales only, the exponent has no
            upper bound.
        tasks: number of tasks, kept in the estimate.
        drift: standard deviation of an amount between identical windows, as a fraction of it;
            0 for an exact amount.
    """
    logs = [(log(scale), log(amount)) for scale, amount in points if amount > 0]
    if logs and len(logs) < len(points):
        return Estimate(0.0, 0.0, MOST, tasks, 0.0)
    middle = fmean(x for x, _ in logs) if logs else 0.0
    spread = sum((x - middle) ** 2 for x, _ in logs)
    if not spread:
        return Estimate(0.0, 0.0, 0.0, tasks, 0.0)
    slope = round(sum((x - middle) * y for x, y in logs) / spread, DIGITS)
    half = _half_width(logs, middle, slope, spread, drift) if drift else 0.0
    return Estimate(slope, slope - half, slope + half, tasks, 0.0)


def _half_width(
    logs: Sequence[tuple[float, float]], middle: float, slope: float, spread: float, drift: float
) -> float:
    """Half width of the interval: from the scatter around the line, or the drift if larger."""
    height = fmean(y for _, y in logs)
    left = sum((y - height - slope * (x - middle)) ** 2 for x, y in logs)
    freedom = max(1, len(logs) - 2)
    deviation = max(drift, sqrt(left / freedom)) / sqrt(spread)
    return deviation * bound_at(freedom if len(logs) > MIN_SCALES else MANY)
