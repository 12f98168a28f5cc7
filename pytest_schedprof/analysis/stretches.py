"""Cut a series into level or sloped stretches by penalised least squares.

The cut is optimal (dynamic programming, without the pruning of PELT). Prefix sums make the squares
of any stretch a matter of a few multiplications.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import inf, log
from operator import add
from statistics import median
from typing import NamedTuple

MIN_LEVEL = 3
"""Smallest number of points of a stretch: a change of fewer points did not last."""

MIN_TREND = 20
"""Smallest number of points of a sloped stretch: with fewer a slope cannot be told from a step."""

PENALTY = 2.0
"""Penalty of a parameter, in logarithms of the series' length. 1 is Schwarz's criterion (BIC),
which assumes independent normal noise. benchmarks/change_points.py measured this value."""

PARAMETERS = {False: 2, True: 3}
"""Parameters of a level and of a sloped stretch: start, height, and slope."""


class Stretch(NamedTuple):
    """The values from `start` up to, but not including, `stop`."""

    start: int
    stop: int
    is_sloped: bool = False

    @property
    def end(self) -> float:
        """Position between its last value and the next one."""
        return self.stop - 0.5


class Fits:
    """Least squares of any stretch of a series."""

    def __init__(self, values: Sequence[float]) -> None:
        self.values = values
        self.centre = median(values)
        centred = [value - self.centre for value in values]
        self._sums = [0.0, *accumulate(centred)]
        self._squares = [0.0, *accumulate(value * value for value in centred)]
        self._moments = [0.0, *accumulate(at * value for at, value in enumerate(centred))]

    def squares(self, stretch: Stretch) -> float:
        """Sum of the squared residuals."""
        start, stop, is_sloped = stretch
        total = self._sums[stop] - self._sums[start]
        left = self._squares[stop] - self._squares[start] - total * total / (stop - start)
        if is_sloped:
            left -= self._slope(start, stop) ** 2 * _spread(stop - start)
        return max(left, 0.0)

    def squares_until(self, stop: int, *, is_sloped: bool) -> list[float]:
        """Sums of squared residuals of all stretches that end at `stop`, indexed by their start."""
        starts = stop - (MIN_TREND if is_sloped else MIN_LEVEL) + 1
        squares, sums = self._squares[stop], self._sums[stop]
        before = zip(range(starts), self._squares, self._sums, strict=False)
        level = [squares - q - (sums - s) ** 2 / (stop - start) for start, q, s in before]
        if not is_sloped:
            return level
        return [
            left - self._slope(start, stop) ** 2 * _spread(stop - start)
            for start, left in enumerate(level)
        ]

    def height(self, stretch: Stretch, at: float) -> float:
        """Height of the fit at a position, which may be outside of the stretch."""
        start, stop, is_sloped = stretch
        mean = self.centre + (self._sums[stop] - self._sums[start]) / (stop - start)
        return mean + (self._slope(start, stop) * (at - _middle(stretch)) if is_sloped else 0.0)

    def _slope(self, start: int, stop: int) -> float:
        total = self._sums[stop] - self._sums[start]
        moment = self._moments[stop] - self._moments[start]
        return (moment - total * (start + stop - 1) / 2) / _spread(stop - start)

    def residuals(self, stretch: Stretch) -> list[float]:
        """Distance of each value from the fit."""
        places = range(stretch.start, stretch.stop)
        return [self.values[at] - self.height(stretch, at) for at in places]


def doubt(stretch: Stretch, at: float) -> float:
    """Variance of the fitted height at a position, in units of the variance of one value."""
    points = stretch.stop - stretch.start
    away = (at - _middle(stretch)) ** 2 / _spread(points) if stretch.is_sloped else 0.0
    return 1 / points + away


def _middle(stretch: Stretch) -> float:
    return (stretch.start + stretch.stop - 1) / 2


def _spread(points: int) -> float:
    """Sum of squares of consecutive positions around their middle."""
    return points * (points * points - 1) / 12


def parameter_price(length: int) -> float:
    """Amount by which a parameter must reduce the squares, in units of one value's variance."""
    return PENALTY * log(length)


def cut(fits: Fits, variance: float) -> list[Stretch]:
    """Return the stretches with the least squares plus penalties."""
    length = len(fits.values)
    price = parameter_price(length) * variance
    least, last = [0.0] + [inf] * length, [Stretch(0, 0)] * (length + 1)
    for stop in range(MIN_LEVEL, length + 1):
        for is_sloped in (False, True) if stop >= MIN_TREND else (False,):
            costs = list(map(add, least, fits.squares_until(stop, is_sloped=is_sloped)))
            cheapest = min(costs)
            if (cost := cheapest + PARAMETERS[is_sloped] * price) < least[stop]:
                least[stop] = cost
                last[stop] = Stretch(costs.index(cheapest), stop, is_sloped)
    return _traced(last)


def _traced(last: Sequence[Stretch]) -> list[Stretch]:
    """Follow the best cuts from the end to the beginning, and return them in order."""
    stretches: list[Stretch] = []
    stop = len(last) - 1
    while stop:
        stretches.append(last[stop])
        stop = last[stop].start
    return stretches[::-1]
