"""The difference of two figures, with its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, inf, isinf, sqrt
from statistics import fmean, stdev

from pytest_schedprof.judge.estimate import MANY, bound_at, critical, upper_tail

ALPHA = 0.01
"""Rate of false alarms: probability that a comparison of identical code finds any regression, for
all timed figures of one test together."""

OF_EACH_RUN = 0.02
"""Largest chance that noise alone shows a change that counts, in each of the two runs that must
show it. Noise that lasts for days makes runs alike, so the square of a chance promises too much."""


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
    then: float | None = None
    """The figure of the run before this one, which must show a change too, if `before` is the usual
    level of a series of runs; else None."""

    @property
    def difference(self) -> float:
        """Positive if the figure rose."""
        return self.after - self.before

    @property
    def rise(self) -> float:
        """By how much the figure rose for certain, in both runs if there are two: what must reach
        the least rise that counts."""
        return min(self._runs) - self.before

    @property
    def fall(self) -> float:
        """The same of a fall."""
        return self.before - max(self._runs)

    @property
    def _runs(self) -> list[float]:
        return [self.after] if self.then is None else [self.after, self.then]

    def may_have_risen(self, needed: float) -> bool:
        """Whether a rise of this size is possible, though it is not shown; of two runs, whether
        this one shows it and the one before did not."""
        if self.then is None:
            return self.high >= needed
        return self.difference >= needed and self._chance_in_one(self.difference) <= OF_EACH_RUN

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
        """Of each run, if noise is to exceed it in all of them with this chance."""
        in_one = chance if self.then is None else min(OF_EACH_RUN, sqrt(chance))
        return self.error * critical(in_one, self.freedom) if self.error else 0.0

    @property
    def chance_of_rise(self) -> float:
        """P value of a rise that all runs show: its probability if nothing changed."""
        return self._chance(self.rise)

    @property
    def chance_of_fall(self) -> float:
        """P value of a fall."""
        return self._chance(self.fall)

    def _chance(self, difference: float) -> float:
        chance = self._chance_in_one(difference)
        if self.then is None:
            return chance
        return chance * chance if chance <= OF_EACH_RUN else 1.0

    def _chance_in_one(self, difference: float) -> float:
        if not self.error:
            return 0.0 if difference > 0 else 1.0
        return 1.0 if isinf(self.error) else upper_tail(difference / self.error, self.freedom)


def unpaired(before: Figure, after: Figure) -> Contrast:
    """Contrast of two independent figures (Welch; degrees of freedom by Satterthwaite)."""
    variances = before.error**2, after.error**2
    parts = variances[0] ** 2 / before.freedom + variances[1] ** 2 / after.freedom
    freedom = max(1, int(sum(variances) ** 2 / parts)) if parts else MANY
    return Contrast(before.value, after.value, hypot(before.error, after.error), freedom)


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
    count = len(chances)
    ranked = enumerate(sorted(chances), start=1)
    ranks = (rank for rank, chance in ranked if chance <= alpha * rank / count)
    return alpha / count * max(ranks, default=1)
