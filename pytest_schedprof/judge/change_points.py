"""Find the steps of a series.

docs/statistics.md describes the method. The series is cut into level stretches. Then, as in
Hunter's method, a t test is made at each border, and the weakest border is removed until all
borders pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from math import inf, log, sqrt
from operator import add
from statistics import NormalDist, median
from typing import NamedTuple

from pytest_schedprof.judge.estimate import upper_tail
from pytest_schedprof.model.run import Step

MIN_LEVEL = 3
"""Smallest number of points of a stretch: a change of fewer points did not last."""

PENALTY = 2.0
"""Penalty of a parameter, in logarithms of the series' length. 1 is Schwarz's criterion (BIC),
which assumes independent normal noise. benchmarks/change_points.py measured this value."""

PARAMETERS = 2
"""Parameters of a stretch: start and height."""


class Stretch(NamedTuple):
    """The values from `start` up to, but not including, `stop`."""

    start: int
    stop: int

    @property
    def points(self) -> int:
        return self.stop - self.start


class Fits:
    """Least squares of any stretch of a series."""

    def __init__(self, values: Sequence[float]) -> None:
        self.values = values
        self.centre = median(values)
        centred = [value - self.centre for value in values]
        self._sums = [0.0, *accumulate(centred)]
        self._squares = [0.0, *accumulate(value * value for value in centred)]

    def squares(self, stretch: Stretch) -> float:
        start, stop = stretch
        total = self._sums[stop] - self._sums[start]
        left = self._squares[stop] - self._squares[start] - total * total / stretch.points
        return max(left, 0.0)

    def squares_until(self, stop: int) -> Iterator[float]:
        """Sums of squared residuals of all stretches that end at `stop`, by their start."""
        squares, sums = self._squares[stop], self._sums[stop]
        starts = range(stop - MIN_LEVEL + 1)
        before = zip(starts, self._squares, self._sums, strict=False)
        return (squares - q - (sums - s) ** 2 / (stop - start) for start, q, s in before)

    def height(self, stretch: Stretch) -> float:
        start, stop = stretch
        return self.centre + (self._sums[stop] - self._sums[start]) / stretch.points

    def residuals(self, stretch: Stretch) -> list[float]:
        height = self.height(stretch)
        return [value - height for value in self.values[stretch.start : stretch.stop]]


def cut(fits: Fits, variance: float) -> list[Stretch]:
    """Return the stretches with the least squares plus penalties."""
    length = len(fits.values)
    price = PARAMETERS * PENALTY * log(length) * variance
    least, last = [0.0] + [inf] * length, [Stretch(0, 0)] * (length + 1)
    for stop in range(MIN_LEVEL, length + 1):
        costs = list(map(add, least, fits.squares_until(stop)))
        cheapest = min(costs)
        least[stop] = cheapest + price
        last[stop] = Stretch(costs.index(cheapest), stop)
    return _traced(last)


def _traced(last: Sequence[Stretch]) -> list[Stretch]:
    """Follow the best cuts from the end to the beginning, and return them in order."""
    stretches: list[Stretch] = []
    stop = len(last) - 1
    while stop:
        stretches.append(last[stop])
        stop = last[stop].start
    return stretches[::-1]


CHANCE = 0.02
"""Probability that a group of series of independent noise shows a step anywhere. It is divided over
all places of all series of the group."""

QUIET = 0.8
"""Quantile of the differences between neighbours that measures the noise. Outliers and steps are in
fewer of the differences than the rest, the jumps of a bimodal series in more."""

OUTLYING = 3.0
"""Values are clipped to this many standard deviations around the median of their neighbours."""

NEIGHBOURS = 5

ROUNDING = 1e-6
"""Differences below this part of the series' range are rounding errors, the only noise of an exact
series."""

MOST_LASTING = 0.8
"""Upper bound of the estimated correlation of neighbours: closer to 1, no test has any power."""

MIN_POINTS = 2 * MIN_LEVEL
"""Shorter series have no steps."""


def steps_in(
    values: Sequence[float],
    *,
    relative: float = 0.0,
    absolute: float = 0.0,
    siblings: int = 1,
) -> tuple[Step, ...]:
    """Return the steps of a series.

    Args:
        values: in order of time.
        relative: the smallest change to report, as a fraction of the smaller side.
        absolute: the smallest change to report, as an amount; a change must reach both.
        siblings: number of series that are tested together, including this one.
    """
    if len(values) < MIN_POINTS or min(values) == max(values):
        return ()
    return _Search(values, relative, absolute, CHANCE / siblings).steps()


class _Search:
    """One series, and its stretches while they are merged."""

    def __init__(
        self, values: Sequence[float], relative: float, absolute: float, chance: float
    ) -> None:
        least = ROUNDING * (max(values) - min(values))
        noise = scatter(values)
        self.fits = Fits(without_outliers(values, noise))
        self.relative, self.absolute = relative, absolute
        self.floor = least * least
        self.chance = chance / len(values)
        self.stretches = cut(self.fits, max(noise * noise, self.floor))

    def steps(self) -> tuple[Step, ...]:
        """Remove the weakest border until all borders are significant."""
        while True:
            lasting = self._lasting()
            steps = [self._step(*pair, lasting) for pair in pairwise(self.stretches)]
            weak = [
                number
                for number, step in enumerate(steps)
                if step.chance >= self.chance or not self._is_large(step.before, step.after)
            ]
            if not weak:
                return tuple(steps)
            weakest = max(weak, key=lambda number: steps[number].chance)
            one, other = self.stretches[weakest : weakest + 2]
            self.stretches[weakest : weakest + 2] = [Stretch(one.start, other.stop)]

    def _is_large(self, before: float, after: float) -> bool:
        least = max(self.relative * min(abs(before), abs(after)), self.absolute)
        return abs(after - before) >= least

    def _step(self, one: Stretch, other: Stretch, lasting: float) -> Step:
        """Test the border of two stretches: a t test of their heights."""
        before, after = self.fits.height(one), self.fits.height(other)
        squares = self.fits.squares(one) + self.fits.squares(other)
        freedom = one.points + other.points - 2
        variance = max(squares / freedom, self.floor) * (1 / one.points + 1 / other.points)
        t = abs(after - before) / sqrt(variance * _inflation(lasting))
        return Step(one.stop, before, after, 2 * upper_tail(t, freedom))

    def _lasting(self) -> float:
        """Correlation of neighbouring residuals; 0 for independent noise."""
        residuals = [self.fits.residuals(stretch) for stretch in self.stretches]
        squares = sum(value * value for residual in residuals for value in residual)
        if squares <= self.floor * len(self.fits.values):
            return 0.0
        products = sum(a * b for residual in residuals for a, b in pairwise(residual))
        # Fitting removes a part of the noise, which makes neighbouring residuals less correlated.
        taken = PARAMETERS * len(self.stretches) / len(self.fits.values)
        return min(max(products / squares + taken, 0.0), MOST_LASTING)


def _inflation(lasting: float) -> float:
    """Factor by which autocorrelated noise raises the variance of a mean."""
    return (1 + lasting) / (1 - lasting)


def scatter(values: Sequence[float], apart: int = 1) -> float:
    """Standard deviation of the noise, estimated from the differences of neighbours.

    Args:
        values: in order of time.
        apart: distance of the neighbours.
    """
    differences = sorted(abs(b - a) for a, b in zip(values, values[apart:], strict=False))
    normal = NormalDist().inv_cdf((1 + QUIET) / 2) * sqrt(2)
    return differences[int(QUIET * (len(differences) - 1))] / normal


def without_outliers(values: Sequence[float], noise: float) -> list[float]:
    """Clip each value to the range of noise around the median of its neighbours.

    One or two points that stand out are no step. Three that agree are the median, and stay.
    """
    most = OUTLYING * noise
    last = len(values) - NEIGHBOURS
    around = [min(max(place - NEIGHBOURS // 2, 0), max(last, 0)) for place in range(len(values))]
    medians = [median(values[start : start + NEIGHBOURS]) for start in around]
    return [
        min(max(value, middle - most), middle + most)
        for value, middle in zip(values, medians, strict=True)
    ]
