"""Variance of figures between identical windows, with upper bounds for few windows."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, hypot, inf, sqrt
from statistics import NormalDist, fmean
from typing import NamedTuple

from pytest_schedprof.analysis.student import CONFIDENCE

STEPS = 60
"""Steps of a bisection, enough for the precision of a float."""


class Part(NamedTuple):
    """A component of a variance, with its degrees of freedom."""

    value: float
    freedom: float


class Variance(NamedTuple):
    """Variance of one window: the components between clusters and within a cluster."""

    parts: tuple[Part, ...] = ()

    @property
    def value(self) -> float:
        """Sum of the components."""
        return sum(part.value for part in self.parts)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the sum (Satterthwaite 1946)."""
        squares = sum(part.value**2 / part.freedom for part in self.parts)
        return self.value**2 / squares if squares else sum(part.freedom for part in self.parts)


def variance_of(groups: Sequence[Sequence[float]]) -> Variance:
    """Return the variance of a figure whose values within a group are correlated.

    Components of variance between and within groups: one-way random effects, with groups of
    unequal size.
    """
    groups = [group for group in groups if group]
    many, count = len(groups), sum(map(len, groups))
    parts, size = [], 1.0
    if many > 1:
        size = (count - sum(len(each) ** 2 for each in groups) / count) / (many - 1)
        parts.append(Part(_between(groups) / (many - 1) / size, many - 1))
    if count > many:
        weight = 1 - 1 / size if many > 1 else 1.0
        parts.append(Part(weight * _within(groups) / (count - many), count - many))
    return Variance(tuple(parts))


def _between(groups: Sequence[Sequence[float]]) -> float:
    mean = fmean(value for group in groups for value in group)
    return sum(len(group) * (fmean(group) - mean) ** 2 for group in groups)


def _within(groups: Sequence[Sequence[float]]) -> float:
    return sum((value - fmean(group)) ** 2 for group in groups for value in group)


def mean_variance(series: Sequence[Sequence[Sequence[float]]]) -> Variance:
    """Return the mean of the variances of several figures, each given in groups.

    Figures of the same windows are correlated, so the degrees of freedom do not add up: the
    variance of the mean is that of one figure times the mean squared correlation.
    """
    found = [variance_of(groups).parts for groups in series]
    if not found:
        return Variance()
    flat = [[value for group in groups for value in group] for groups in series]
    alike = _mean_squared_correlation(flat)
    means = [
        Part(fmean(each.value for each in parts), parts[0].freedom / alike)
        for parts in zip(*found, strict=True)
    ]
    return Variance(tuple(means))


def _mean_squared_correlation(series: Sequence[Sequence[float]]) -> float:
    """Mean over all pairs, including each series with itself.

    Chance makes it too large, which makes the bounds wider and so is safe.
    """
    units = [_unit(values) for values in series]
    squares = [sum(a * b for a, b in zip(x, y, strict=True)) ** 2 for x in units for y in units]
    return fmean(squares) or 1.0


def _unit(values: Sequence[float]) -> list[float]:
    mean = fmean(values)
    length = sqrt(sum((value - mean) ** 2 for value in values))
    return [(value - mean) / length if length else 0.0 for value in values]


def at_most(variance: Variance) -> float:
    """Return the upper confidence bound of a variance, at the level of all bounds.

    The bounds of the components are combined after Graybill and Wang 1980.
    """
    if not variance.parts:
        return inf
    return variance.value + hypot(
        *(part.value * (_factor(part.freedom) - 1) for part in variance.parts)
    )


def _factor(freedom: float) -> float:
    """Ratio of the upper bound of a variance to its estimate.

    Chi-square quantiles by the cube root approximation (Wilson and Hilferty 1931): within 2 % from
    5 degrees of freedom on, and too wide, so safe, below 3.
    """
    small = 2 / (9 * freedom)
    root = 1 - small + NormalDist().inv_cdf(1 - CONFIDENCE) * sqrt(small)
    return 1 / root**3 if root > 0 else inf


def rate_at_most(cases: int, trials: int) -> float:
    """Return the exact upper bound of a rate (Clopper and Pearson 1934), at the same level."""
    if cases >= trials:
        return 1.0
    low, high = cases / trials, 1.0
    for _ in range(STEPS):
        rate = (low + high) / 2
        few = sum(comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(cases + 1))
        low, high = (rate, high) if few > 1 - CONFIDENCE else (low, rate)
    return high
