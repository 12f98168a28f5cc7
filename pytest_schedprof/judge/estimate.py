"""Estimate a share with bounds that allow for over-dispersion. docs/statistics.md has the method.

Samples of a wall-clock profiler are not independent: when the scheduler is preempted, many samples
in a row are affected. So the scatter is measured between units (rounds, or blocks of one window),
the number of samples is reduced to the effective number, and the bounds are Wilson's for that
number, with a quantile of Student's t because there are few units.

The difference of two figures has its standard error here too, and the chance that it is noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise
from math import atan, cos, hypot, inf, isinf, pi, sin, sqrt
from statistics import fmean, stdev

from msgspec import Struct

from pytest_schedprof.model.limit import Estimate

CONFIDENCE = 0.95
"""Level of each one-sided bound."""

MANY = 1000
"""Degrees of freedom for an error that is known instead of estimated from a few rounds."""

STEPS = 60
"""Steps of a bisection, enough for the precision of a float."""

ROUNDING = 1e-9
"""Part of a figure by which rounding may get it wrong: `1.05 * 1.01 - 1.0605` is not 0."""


@lru_cache(maxsize=2**14)  # a comparison asks the same several times
def upper_tail(t: float, df: int) -> float:
    """Return the probability that Student's t with `df` degrees of freedom is above `t`.

    A finite sum, exact except for rounding: results below 1e-15 may be 0. (Abramowitz and
    Stegun, Handbook of Mathematical Functions, 26.7.3 for odd and 26.7.4 for even `df`.)
    """
    if df < 1:
        raise ValueError(f"Student's t has 1 degree of freedom at least, not {df}")
    angle = atan(t / sqrt(df))
    within = _odd(angle, df) if df % 2 else _even(angle, df)
    return min(max((1 - within) / 2, 0.0), 1.0)


def _odd(angle: float, df: int) -> float:
    term, total, square = cos(angle), 0.0, cos(angle) ** 2
    for factor in range(3, df + 1, 2):
        total += term
        term *= square * (factor - 1) / factor
    return 2 / pi * (angle + sin(angle) * total)


def _even(angle: float, df: int) -> float:
    term, total, square = 1.0, 1.0, cos(angle) ** 2
    for factor in range(2, df, 2):
        term *= square * (factor - 1) / factor
        total += term
    return sin(angle) * total


def bound_at(df: int) -> float:
    """Return the number of standard errors between an estimate and its one-sided bound."""
    return critical(1 - CONFIDENCE, df)


@cache
def critical(chance: float, df: int) -> float:
    """Return the quantile that Student's t exceeds with this probability (below one half).

    Found by bisection.
    """
    low, high = 0.0, 1.0
    while upper_tail(high, df) > chance:
        low, high = high, 2 * high
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if upper_tail(middle, df) > chance else (low, middle)
    return high


MIN_ROUNDS = 3
"""Number of rounds from which the scatter between rounds is estimated."""


def estimate(
    counts: Sequence[int], totals: Sequence[int], *, rounds: bool, drift: float
) -> Estimate:
    """Return the share `sum(counts) / sum(totals)` over units, with bounds.

    Args:
        counts: samples of the function in each unit.
        totals: busy samples in each unit.
        rounds: whether units are rounds (else consecutive blocks of one window).
        drift: standard deviation of a share between identical windows, in units of
            sqrt(p (1 - p)). Blocks of one window cannot show this noise, so it is added;
            rounds show it themselves.
    """
    samples = sum(totals)
    if not samples:
        return Estimate(value=0.0, low=0.0, high=1.0, samples=0, dispersion=1.0)
    share = sum(counts) / samples
    residuals = [count - share * unit for count, unit in zip(counts, totals, strict=True) if unit]
    units = effective_units([unit for unit in totals if unit])
    variance = _round_variance(residuals, units) if rounds else _block_variance(residuals)
    binomial = samples * share * (1 - share)
    ratio = sqrt(max(variance / binomial, 1.0)) if binomial else 1.0
    if not rounds:
        ratio = sqrt(ratio**2 + drift**2 * samples)
    quantile = bound_at(degrees_of_freedom(units, rounds=rounds))
    low, high = _wilson(share, samples / ratio**2, quantile)
    return Estimate(
        value=round(share, 6),
        low=round(low, 6),
        high=round(high, 6),
        samples=samples,
        dispersion=round(ratio, 3),
    )


def effective_units(totals: Sequence[int]) -> float:
    """Effective number of units: lower than their number when their sizes differ."""
    return sum(totals) ** 2 / sum(total * total for total in totals)


def degrees_of_freedom(units: float, *, rounds: bool) -> int:
    """Degrees of freedom of the scatter; differences of neighbouring blocks overlap, which costs a
    third of them."""
    return max(1, round(units) - 1 if rounds else round((units - 1) * 2 / 3))


def _round_variance(residuals: Sequence[float], units: float) -> float:
    """Variance of the sum of the residuals of rounds.

    Residuals of a ratio sum to zero, which lowers their squares by 1 part in `units`.
    """
    return sum(value * value for value in residuals) / (1 - 1 / units) if units > 1 else 0.0


def _block_variance(residuals: Sequence[float]) -> float:
    """Variance of the sum of the residuals of blocks, from the differences of neighbouring blocks.

    A test has phases (submit, compute, release) with different shares, which is no noise. The
    differences of neighbours contain each change of phase once; deviations from the mean
    would contain it in every block.
    """
    if len(residuals) < 2:
        return 0.0
    squares = sum((b - a) ** 2 for a, b in pairwise(residuals))
    return len(residuals) * squares / (2 * (len(residuals) - 1))


def _wilson(share: float, samples: float, quantile: float) -> tuple[float, float]:
    weight = quantile * quantile / samples
    centre = (share + weight / 2) / (1 + weight)
    half = quantile / (1 + weight) * sqrt(share * (1 - share) / samples + weight / (4 * samples))
    return max(0.0, centre - half), min(1.0, centre + half)


ALPHA = 0.01
"""Rate of false alarms: probability that a comparison of identical code finds any regression, for
all timed figures of one test together."""

OF_EACH_RUN = 0.02
"""Largest chance that noise alone shows a change that counts, in each of the two runs that must
show it. Noise that lasts for days makes runs alike, so the square of a chance promises too much."""


class Figure(Struct, frozen=True):
    """A number with its standard error, 0 for an exact number."""

    value: float
    error: float = 0.0
    freedom: int = MANY


class Contrast(Struct, frozen=True):
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
        """By how much the figure fell for certain, in both runs if there are two."""
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
        """Lower bound of the fall, which noise exceeds with this chance."""
        return self.fall - self._margin(chance)

    def _margin(self, chance: float) -> float:
        """Return the distance that noise exceeds with this chance; of two runs, in both."""
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
    if not (before.error or after.error):  # nearly all counts
        return Contrast(before.value, after.value, 0.0, MANY)
    variances = before.error**2, after.error**2
    parts = variances[0] ** 2 / before.freedom + variances[1] ** 2 / after.freedom
    # Of one side without an error it is the other's, which the quotient may miss by its last bit.
    freedom = max(1, int(sum(variances) ** 2 / parts * (1 + ROUNDING))) if parts else MANY
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
