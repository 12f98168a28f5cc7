"""Find the change points of a series: steps, and slow trends.

docs/history.md describes the method. The series is cut into level or sloped stretches (see
`stretches`). Then, as in Hunter's method, a t test is made at each border, and the weakest border
is removed until all borders pass. So a slow trend is one sloped stretch, not a staircase of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from statistics import NormalDist, median

from pytest_schedprof.analysis.stretches import (
    MIN_LEVEL,
    MIN_TREND,
    PARAMETERS,
    Fits,
    Stretch,
    cut,
    doubt,
    parameter_price,
)
from pytest_schedprof.analysis.student import upper_tail
from pytest_schedprof.model.history import Course, Step, Trend

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
"""Shorter series have no change points."""


def course(
    values: Sequence[float],
    *,
    relative: float = 0.0,
    absolute: float = 0.0,
    siblings: int = 1,
) -> Course:
    """Return the steps and trends of a series.

    Args:
        values: in order of time.
        relative: the smallest change to report, as a fraction of the smaller side.
        absolute: the smallest change to report, as an amount; a change must reach both.
        siblings: number of series that are tested together, including this one.
    """
    if len(values) < MIN_POINTS or min(values) == max(values):
        return Course()
    return _Search(values, relative, absolute, CHANCE / siblings).course()


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
        self.stretches = [self._formed(*each[:2]) for each in cut(self.fits, self._least(noise))]

    def _least(self, noise: float) -> float:
        return max(noise * noise, self.floor)

    def course(self) -> Course:
        """Remove the weakest border until all borders are significant."""
        while True:
            lasting = self._lasting()
            steps = [self._step(*pair, lasting) for pair in pairwise(self.stretches)]
            weak = [number for number, step in enumerate(steps) if not self._is_strong(step)]
            if not weak:
                break
            self._join(max(weak, key=lambda number: steps[number].chance), lasting)
        trends = tuple(self._trend(each) for each in self.stretches if each.is_sloped)
        return Course(tuple(steps), trends)

    def _join(self, number: int, lasting: float) -> None:
        one, other = self.stretches[number : number + 2]
        joined = self._formed(one.start, other.stop, lasting)
        apart = self.fits.squares(one) + self.fits.squares(other)
        price = parameter_price(len(self.fits.values)) * self._variance(joined)
        if joined.is_sloped and self.fits.squares(joined) > apart + price:
            joined = Stretch(*joined[:2])  # a step that is too small to report, not a trend
        self.stretches[number : number + 2] = [joined]

    def _is_strong(self, step: Step) -> bool:
        return step.chance < self.chance and self._is_large(step.before, step.after)

    def _is_large(self, before: float, after: float) -> bool:
        least = max(self.relative * min(abs(before), abs(after)), self.absolute)
        return abs(after - before) >= least

    def _trend(self, stretch: Stretch) -> Trend:
        first, last = stretch.start, stretch.stop - 1
        heights = [self.fits.height(stretch, at) for at in (first, last)]
        return Trend(first, last, *heights)

    def _step(self, one: Stretch, other: Stretch, lasting: float) -> Step:
        """Test the border of two stretches: a t test of their fitted heights at the border."""
        before, after = (self.fits.height(each, one.end) for each in (one, other))
        variance = self._variance(one, other) * (doubt(one, one.end) + doubt(other, one.end))
        t = abs(after - before) / sqrt(variance * _inflation(lasting))
        return Step(one.stop, before, after, 2 * upper_tail(t, _freedom(one, other)))

    def _variance(self, *stretches: Stretch) -> float:
        squares = sum(self.fits.squares(each) for each in stretches)
        return max(squares / _freedom(*stretches), self.floor)

    def _formed(self, start: int, stop: int, lasting: float = 0.0) -> Stretch:
        """Return a sloped stretch if its slope is significant and large, else a level one."""
        level, sloped = Stretch(start, stop), Stretch(start, stop, is_sloped=True)
        if stop - start < MIN_TREND:
            return level
        trend = self._trend(sloped)
        if not self._is_large(trend.before, trend.after):
            return level
        gain = self.fits.squares(level) - self.fits.squares(sloped)
        t = sqrt(max(gain, 0.0) / (self._variance(sloped) * _inflation(lasting)))
        is_likely = 2 * upper_tail(t, _freedom(sloped)) >= self.chance
        return level if is_likely else sloped

    def _lasting(self) -> float:
        """Correlation of neighbouring residuals; 0 for independent noise."""
        residuals = [self.fits.residuals(each) for each in self.stretches]
        squares = sum(value * value for each in residuals for value in each)
        if squares <= self.floor * len(self.fits.values):
            return 0.0
        products = sum(a * b for each in residuals for a, b in pairwise(each))
        # Fitting removes a part of the noise, which makes neighbouring residuals less correlated.
        taken = sum(PARAMETERS[each.is_sloped] for each in self.stretches) / len(self.fits.values)
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
    around = [min(max(at - NEIGHBOURS // 2, 0), max(last, 0)) for at in range(len(values))]
    medians = [median(values[start : start + NEIGHBOURS]) for start in around]
    return [
        min(max(value, middle - most), middle + most)
        for value, middle in zip(values, medians, strict=True)
    ]
