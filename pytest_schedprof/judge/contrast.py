"""The difference of two figures, with its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot, inf, isinf, sqrt
from statistics import fmean, stdev

from pytest_schedprof.judge.estimate import MANY, bound_at, critical, upper_tail


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its standard error, 0 for an exact number."""

    value: float
    error: float = 0.0
    freedom: int = MANY


@dataclass(frozen=True, slots=True)
class Contrast:
    """A figure before and after, with the standard error of the difference."""

    before: float
    after: float
    error: float
    freedom: int

    @property
    def difference(self) -> float:
        """Positive if the figure rose."""
        return self.after - self.before

    @property
    def rise(self) -> float:
        """By how much the figure rose for certain: what must reach the least rise that counts."""
        return self.difference

    @property
    def fall(self) -> float:
        """The same of a fall."""
        return -self.difference

    def may_have_risen(self, needed: float) -> bool:
        """Whether a rise of this size is possible, though it is not shown."""
        return self.high >= needed

    @property
    def low(self) -> float:
        """Lower bound of the difference, at the confidence level of all bounds."""
        return self.difference - self._half

    @property
    def high(self) -> float:
        """Upper bound of the difference, at the same level."""
        return self.difference + self._half

    @property
    def _half(self) -> float:
        return self.error * bound_at(self.freedom) if self.error else 0.0

    def least_rise(self, chance: float) -> float:
        """Lower bound of the rise, which noise exceeds with this chance.

        It is above 0 if the p value of the rise is below the chance.
        """
        return self.rise - self._margin(chance)

    def least_fall(self, chance: float) -> float:
        """The same of a fall."""
        return self.fall - self._margin(chance)

    def _margin(self, chance: float) -> float:
        return self.error * critical(chance, self.freedom) if self.error else 0.0

    @property
    def chance_of_rise(self) -> float:
        """P value of a rise: its probability if nothing changed."""
        return self._chance(self.rise)

    @property
    def chance_of_fall(self) -> float:
        """P value of a fall."""
        return self._chance(self.fall)

    def _chance(self, difference: float) -> float:
        if not self.error:
            return 0.0 if difference > 0 else 1.0
        return 1.0 if isinf(self.error) else upper_tail(difference / self.error, self.freedom)


def unpaired(before: Figure, after: Figure) -> Contrast:
    """Contrast of two independent figures (Welch)."""
    error = hypot(before.error, after.error)
    return Contrast(before.value, after.value, error, _freedom([before, after]))


def _freedom(figures: Sequence[Figure]) -> int:
    """Degrees of freedom of the difference (Welch and Satterthwaite)."""
    variances = [figure.error**2 for figure in figures]
    parts = sum(v**2 / f.freedom for v, f in zip(variances, figures, strict=True) if f.freedom)
    return max(1, int(sum(variances) ** 2 / parts)) if parts else MANY


def paired(before: Sequence[float], after: Sequence[float]) -> Contrast:
    """Contrast of figures that were measured in turns; noise common to a pair cancels."""
    differences = [b - a for a, b in zip(before, after, strict=True)]
    count = len(differences)
    error = stdev(differences) / sqrt(count) if count > 1 else inf
    return Contrast(fmean(before), fmean(after), error, max(1, count - 1))


def largest_chance(chances: Sequence[float], alpha: float) -> float:
    """Return up to which p value a figure is significant, after Benjamini and Hochberg.

    The k smallest are, for the largest k whose p value is at most k * alpha / n. If nothing
    changed, any is significant with a probability of at most `alpha`. If something changed, the
    expected part of wrong ones among the significant ones is at most `alpha`. So is that of bounds
    at this level that are wrong (Benjamini and Yekutieli 2005).
    """
    ranked = enumerate(sorted(chances), start=1)
    count = len(chances)
    return alpha / count * max((k for k, each in ranked if each <= alpha * k / count), default=1)


@dataclass(frozen=True, slots=True)
class Policy:
    """Thresholds that a difference must pass to be called a change."""

    exact_rise: float = 0.01
    """Relative change of calls and bytecodes per task."""
    cpu_rise: float = 0.05
    """Relative change of the CPU time per task."""
    share_rise: float = 0.02
    """Difference of a share."""
    least_cpu_rise: float = 0.01
    """Instead of `cpu_rise` where earlier runs show how much the figure varies between runs."""
    least_share_rise: float = 0.005
    """Instead of `share_rise` there."""
    alpha: float = 0.01
    """Rate of false alarms: probability that a comparison of identical code finds any regression,
    for all timed figures of one test together."""
    seen_from: float = 0.02
    """Smallest share of functions that are compared. The change of smaller ones is below
    `share_rise`, and each further figure makes all others harder to decide."""

    def with_past(self) -> Policy:
        """Return the policy for figures of which earlier runs show how much they vary."""
        return replace(self, cpu_rise=self.least_cpu_rise, share_rise=self.least_share_rise)


DEFAULT_POLICY = Policy()
