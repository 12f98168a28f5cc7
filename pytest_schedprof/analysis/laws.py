"""Laws of how a figure depends on a size, fitted to few sizes, and forecasts for larger ones.

A law is a sum of terms, each with a coefficient that is not negative: a constant, the logarithm of
the size, its root, and the size itself; and the size's inverse, for what a round costs once, which
the tasks of a larger round share. They are fitted by least squares of relative deviations.
Every law that the measurements do not rule out takes part in the bounds of a forecast.

A part of the figure may be known otherwise. Then laws are fitted to the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log1p, sqrt
from operator import attrgetter

from pytest_schedprof.analysis.student import MANY, bound_at
from pytest_schedprof.model.capacity import Forecast

TERMS: dict[str, Callable[[float], float]] = {
    "1": lambda size: 1.0,
    "once": lambda size: 1.0 / size,
    "log": log1p,
    "root": sqrt,
    "size": lambda size: size,
}

GROWING = ("log", "root", "size")

SHAPES: tuple[tuple[str, ...], ...] = (
    ("1",),
    ("1", "once"),
    ("size",),
    *(("1", each) for each in GROWING),
    *(("1", "once", each) for each in GROWING),
    ("1", "log", "size"),
)
"""The terms of each law that is tried."""

SLOW: tuple[tuple[str, ...], ...] = (("1",), ("1", "once"), ("1", "log"), ("1", "once", "log"))
"""Those of a figure whose growth is known otherwise; the rest grows as caches miss more often."""

Known = Callable[[float], Forecast]
"""Returns the part of a figure that is known at a size."""

Slower = Callable[[float], float]
"""Returns by which factor memory is slower at a size than at those that were measured."""

NOTHING = Forecast(0.0, 0.0, 0.0)

LEAST_SCATTER = 0.03
"""Relative deviation that is assumed at least: clusters of the same size differ by that much, and
a few points may lie on a line by chance."""

RULED_OUT = 6.0
"""Difference of Akaike's criterion from which a law takes no part: the data are then twenty times
as likely under the best one."""

MOST_SIZE = 1e7
"""Sizes above this are not searched."""

STEPS = 60

LEAST_SIZES = 3
"""Of a line through two points nobody can tell how far it may be wrong."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Law:
    """One law, fitted."""

    terms: tuple[str, ...]
    coefficients: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    """Of the coefficients, for a relative deviation of 1."""
    criterion: float
    """Akaike's; the best law has the smallest."""
    scatter: float
    """Relative deviation of a measurement from the best law."""
    freedom: int
    """Degrees of freedom of the scatter."""

    def at(self, size: float) -> float:
        """Return the value at a size."""
        return sum(c * TERMS[t](size) for t, c in zip(self.terms, self.coefficients, strict=True))

    def forecast(self, size: float, known: Forecast = NOTHING) -> Forecast:
        """Return the value, with the bounds of a new measurement at that size."""
        value = self.at(size) + known.value
        place = [TERMS[term](size) for term in self.terms]
        line = sum(
            a * b * self.covariance[i][j] for i, a in enumerate(place) for j, b in enumerate(place)
        )
        half = bound_at(self.freedom) * self.scatter * sqrt(max(0.0, line) + value**2)
        low, high = value - half - (known.value - known.low), value + half
        return Forecast(value, max(0.0, low), high + known.high - known.value)


@dataclass(frozen=True, slots=True)
class Fit:
    """All laws that the measurements do not rule out, the best first."""

    laws: tuple[Law, ...]
    known: Known = lambda size: NOTHING
    slower: Slower = lambda size: 1.0
    """Bounds of forecasts allow that all of the unknown part is slower by this factor."""

    @property
    def best(self) -> Law:
        """The law that the forecast follows."""
        return self.laws[0]

    def at(self, size: float) -> float:
        """Return what the best law says."""
        return self.best.at(size) + self.known(size).value

    def forecast(self, size: float) -> Forecast:
        """Return what the best law says, with the bounds of all."""
        known = self.known(size)
        all_of_them = [law.forecast(size, known) for law in self.laws]
        low, high = (min(each.low for each in all_of_them), max(each.high for each in all_of_them))
        rest = self.best.at(size)
        return Forecast(rest + known.value, low, high + (self.slower(size) - 1) * rest)

    def where(self, bound: float, of: Callable[[float, float], float] | None = None) -> Forecast:
        """Return the size at which the value reaches a bound, with bounds.

        Args:
            bound: what is reached.
            of: makes of a size and its value what is compared, which must not fall as the size
                grows; the value itself by default.
        """
        made = of or (lambda size, value: value)

        def reached(part: Callable[[Forecast], float]) -> float:
            return _crossing(lambda size: made(size, part(self.forecast(size))), bound)

        return Forecast(
            reached(attrgetter("value")), reached(attrgetter("high")), reached(attrgetter("low"))
        )


def fit(points: Points, known: Known | None = None, slower: Slower = lambda size: 1.0) -> Fit:
    """Fit all laws to sizes and values; a value that is not positive is left out."""
    part = known or (lambda size: NOTHING)
    used = [(float(size), value, part(size).value) for size, value in points if value > 0]
    sizes = len({size for size, _, _ in used})
    shapes = [each for each in (SLOW if known else SHAPES) if len(each) < max(2, sizes)]
    solved = [each for shape in shapes for each in solve(shape, used)]
    if not solved:
        return Fit((Law(("1",), (0.0,), ((0.0,),), 0.0, 0.0, MANY),), part, slower)
    # The scatter is that around the law that fits best for its number of terms.
    scatter = sqrt(min(each.left / each.freedom for each in solved))
    laws = [each.law(max(scatter, LEAST_SCATTER), scatter > LEAST_SCATTER) for each in solved]
    laws.sort(key=lambda law: law.criterion)
    kept = tuple(law for law in laws if law.criterion - laws[0].criterion < RULED_OUT)
    return Fit(kept, part, slower)


@dataclass(frozen=True, slots=True)
class Solved:
    """The coefficients of a law."""

    terms: tuple[str, ...]
    coefficients: tuple[float, ...]
    inverse: tuple[tuple[float, ...], ...]
    left: float
    """Sum of the squares of relative deviations."""
    freedom: int

    def law(self, scatter: float, is_estimated: bool) -> Law:
        """Return the law; its freedom is that of the scatter."""
        criterion = self.left / scatter**2 + 2 * len(self.terms)
        freedom = self.freedom if is_estimated else MANY
        return Law(self.terms, self.coefficients, self.inverse, criterion, scatter, freedom)


def solve(shape: tuple[str, ...], points: Sequence[tuple[float, float, float]]) -> list[Solved]:
    """Return the coefficients of a law; none if one had to be negative.

    Args:
        shape: the terms.
        points: sizes, values, and the known parts of these.
    """
    rows = [[TERMS[term](size) / value for term in shape] for size, value, _ in points]
    rest = [1 - known / value for _, value, known in points]
    columns = list(zip(*rows, strict=True))
    normal = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in columns] for x in columns]
    inverse = inverted(normal) if rows else None
    if inverse is None:
        return []
    sums = [sum(a * b for a, b in zip(column, rest, strict=True)) for column in columns]
    found = tuple(sum(a * b for a, b in zip(row, sums, strict=True)) for row in inverse)
    if min(found) < 0:
        return []
    left = sum(
        (part - sum(c * a for c, a in zip(found, row, strict=True))) ** 2
        for row, part in zip(rows, rest, strict=True)
    )
    freedom = max(1, len(points) - len(shape))
    return [Solved(shape, found, tuple(map(tuple, inverse)), left, freedom)]


def inverted(matrix: Sequence[Sequence[float]]) -> list[list[float]] | None:
    """Return the inverse of a symmetric matrix of a few rows; None if there is none."""
    size = len(matrix)
    # Rows and columns are scaled, because terms differ by orders of magnitude.
    scale = [sqrt(matrix[i][i]) or 1.0 for i in range(size)]
    work = [
        [matrix[i][j] / scale[i] / scale[j] for j in range(size)]
        + [float(i == j) for j in range(size)]
        for i in range(size)
    ]
    for i in range(size):
        pivot = max(range(i, size), key=lambda row: abs(work[row][i]))
        if abs(work[pivot][i]) < 1e-12:
            return None
        work[i], work[pivot] = work[pivot], work[i]
        work[i] = [each / work[i][i] for each in work[i]]
        for j in range(size):
            if j != i:
                work[j] = [a - work[j][i] * b for a, b in zip(work[j], work[i], strict=True)]
    return [[work[i][size + j] / scale[i] / scale[j] for j in range(size)] for i in range(size)]


def _crossing(value: Callable[[float], float], bound: float) -> float:
    """Return the size at which a rising value reaches the bound; infinity if it does not."""
    if value(MOST_SIZE) < bound:
        return float("inf")
    low, high = 1.0, MOST_SIZE
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if value(middle) >= bound else (middle, high)
    return high
