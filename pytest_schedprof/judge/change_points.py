"""Find the steps of a series.

docs/statistics.md describes the method. The series is cut into level or sloped stretches (see
`stretches`). Then, as in Hunter's method, a t test is made at each border, and the weakest border
is removed until all borders pass. So a slow change is one sloped stretch, not a staircase of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import inf, log, sqrt
from operator import add
from statistics import NormalDist, median
from typing import NamedTuple

from pytest_schedprof.judge.estimate import upper_tail
from pytest_schedprof.model.run import Step

MIN_LEVEL = 3
"""Smallest number of points of a stretch: a change of fewer points did not last."""

MIN_SLOPED = 20
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
        self._moments = [0.0, *accumulate(place * value for place, value in enumerate(centred))]

    def squares(self, stretch: Stretch) -> float:
        start, stop, is_sloped = stretch
        total = self._sums[stop] - self._sums[start]
        left = self._squares[stop] - self._squares[start] - total * total / (stop - start)
        if is_sloped:
            left -= self._slope(start, stop) ** 2 * _spread(stop - start)
        return max(left, 0.0)

    def squares_until(self, stop: int, *, is_sloped: bool) -> list[float]:
        """Sums of squared residuals of all stretches that end at `stop`, indexed by their start."""
        starts = stop - (MIN_SLOPED if is_sloped else MIN_LEVEL) + 1
        squares, sums = self._squares[stop], self._sums[stop]
        before = zip(range(starts), self._squares, self._sums, strict=False)
        level = [squares - q - (sums - s) ** 2 / (stop - start) for start, q, s in before]
        if not is_sloped:
            return level
        return [
            left - self._slope(start, stop) ** 2 * _spread(stop - start)
            for start, left in enumerate(level)
        ]

    def height(self, stretch: Stretch, place: float) -> float:
        """Height of the fit at a position, which may be outside of the stretch."""
        start, stop, is_sloped = stretch
        mean = self.centre + (self._sums[stop] - self._sums[start]) / (stop - start)
        return mean + (self._slope(start, stop) * (place - _middle(stretch)) if is_sloped else 0.0)

    def _slope(self, start: int, stop: int) -> float:
        total = self._sums[stop] - self._sums[start]
        moment = self._moments[stop] - self._moments[start]
        return (moment - total * (start + stop - 1) / 2) / _spread(stop - start)

    def residuals(self, stretch: Stretch) -> list[float]:
        places = range(stretch.start, stretch.stop)
        return [self.values[place] - self.height(stretch, place) for place in places]


def doubt(stretch: Stretch, place: float) -> float:
    """Variance of the fitted height at a position, in units of the variance of one value."""
    points = stretch.stop - stretch.start
    distance = (place - _middle(stretch)) ** 2 / _spread(points) if stretch.is_sloped else 0.0
    return 1 / points + distance


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
        for is_sloped in (False, True) if stop >= MIN_SLOPED else (False,):
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
        self.stretches = [
            self._formed(*piece[:2]) for piece in cut(self.fits, max(noise * noise, self.floor))
        ]

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
            self._join(max(weak, key=lambda number: steps[number].chance), lasting)

    def _join(self, number: int, lasting: float) -> None:
        one, other = self.stretches[number : number + 2]
        joined = self._formed(one.start, other.stop, lasting)
        apart = self.fits.squares(one) + self.fits.squares(other)
        price = parameter_price(len(self.fits.values)) * self._variance(joined)
        if joined.is_sloped and self.fits.squares(joined) > apart + price:
            joined = Stretch(*joined[:2])  # a step that is too small to report, not a slope
        self.stretches[number : number + 2] = [joined]

    def _is_large(self, before: float, after: float) -> bool:
        least = max(self.relative * min(abs(before), abs(after)), self.absolute)
        return abs(after - before) >= least

    def _step(self, one: Stretch, other: Stretch, lasting: float) -> Step:
        """Test the border of two stretches: a t test of their fitted heights at the border."""
        before, after = (self.fits.height(side, one.end) for side in (one, other))
        variance = self._variance(one, other) * (doubt(one, one.end) + doubt(other, one.end))
        t = abs(after - before) / sqrt(variance * _inflation(lasting))
        return Step(one.stop, before, after, 2 * upper_tail(t, _freedom(one, other)))

    def _variance(self, *stretches: Stretch) -> float:
        squares = sum(self.fits.squares(stretch) for stretch in stretches)
        return max(squares / _freedom(*stretches), self.floor)

    def _formed(self, start: int, stop: int, lasting: float = 0.0) -> Stretch:
        """Return a sloped stretch if its slope is significant and large, else a level one."""
        level, sloped = Stretch(start, stop), Stretch(start, stop, is_sloped=True)
        if stop - start < MIN_SLOPED:
            return level
        if not self._is_large(*(self.fits.height(sloped, place) for place in (start, stop - 1))):
            return level
        gain = self.fits.squares(level) - self.fits.squares(sloped)
        t = sqrt(max(gain, 0.0) / (self._variance(sloped) * _inflation(lasting)))
        is_likely = 2 * upper_tail(t, _freedom(sloped)) >= self.chance
        return level if is_likely else sloped

    def _lasting(self) -> float:
        """Correlation of neighbouring residuals; 0 for independent noise."""
        residuals = [self.fits.residuals(stretch) for stretch in self.stretches]
        squares = sum(value * value for residual in residuals for value in residual)
        if squares <= self.floor * len(self.fits.values):
            return 0.0
        products = sum(a * b for residual in residuals for a, b in pairwise(residual))
        # Fitting removes a part of the noise, which makes neighbouring residuals less correlated.
        taken = sum(PARAMETERS[stretch.is_sloped] for stretch in self.stretches) / len(
            self.fits.values
        )
        return min(max(products / squares + taken, 0.0), MOST_LASTING)


def _freedom(*stretches: Stretch) -> int:
    return sum(s.stop - s.start - PARAMETERS[s.is_sloped] + 1 for s in stretches)


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
