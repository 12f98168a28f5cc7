"""One figure against another: their difference, and how far it may be off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, inf, isinf, sqrt
from statistics import fmean, stdev

from pytest_schedprof.analysis.student import MANY, bound_at, upper_tail


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its standard error, which is 0 where it is the same every run."""

    value: float
    error: float = 0.0
    freedom: int = MANY


@dataclass(frozen=True, slots=True)
class Contrast:
    """What a figure was and is; the error is that of their difference."""

    before: float
    after: float
    error: float
    freedom: int

    @property
    def difference(self) -> float:
        """Above zero if it rose."""
        return self.after - self.before

    @property
    def low(self) -> float:
        """The difference is at least this, at the confidence level of all bounds."""
        return self.difference - self._half

    @property
    def high(self) -> float:
        """The difference is at most this, at the same level."""
        return self.difference + self._half

    @property
    def _half(self) -> float:
        return self.error * bound_at(self.freedom) if self.error else 0.0

    @property
    def chance_of_rise(self) -> float:
        """How likely a rise like this one is where nothing changed."""
        return self._chance(self.difference)

    @property
    def chance_of_fall(self) -> float:
        """The same of a fall."""
        return self._chance(-self.difference)

    def _chance(self, difference: float) -> float:
        if not self.error:
            return 0.0 if difference > 0 else 1.0
        return 1.0 if isinf(self.error) else upper_tail(difference / self.error, self.freedom)


def unpaired(before: Figure, after: Figure) -> Contrast:
    """Two figures that were measured apart, after Welch."""
    error = hypot(before.error, after.error)
    return Contrast(before.value, after.value, error, _freedom([before, after]))


def _freedom(figures: Sequence[Figure]) -> int:
    """By Welch and Satterthwaite: the noisier figure counts most."""
    variances = [figure.error**2 for figure in figures]
    parts = sum(v**2 / f.freedom for v, f in zip(variances, figures, strict=True) if f.freedom)
    return max(1, int(sum(variances) ** 2 / parts)) if parts else MANY


def paired(before: Sequence[float], after: Sequence[float]) -> Contrast:
    """Figures that were measured in turns: noise that met both of a pair cancels."""
    differences = [b - a for a, b in zip(before, after, strict=True)]
    count = len(differences)
    error = stdev(differences) / sqrt(count) if count > 1 else inf
    return Contrast(fmean(before), fmean(after), error, max(1, count - 1))


def small_enough(chances: Sequence[float], alpha: float) -> list[bool]:
    """Which of many chances are taken for none, after Benjamini and Hochberg.

    The k smallest, for the largest k of which all are at most k parts of alpha divided by how many
    there are. Where nothing changed any is accepted in at most `alpha` of cases; where something
    did, at most such a part of what is accepted is wrong, on average.
    """
    bars = (alpha * rank / len(chances) for rank in range(1, len(chances) + 1))
    below = [each for each, bar in zip(sorted(chances), bars, strict=True) if each <= bar]
    return [bool(below) and each <= below[-1] for each in chances]
