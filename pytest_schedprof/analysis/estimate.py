"""A share with bounds that are honest about over-dispersion. The method is in docs/shares.md.

Samples of a wall-clock profiler are not independent: what preempts the scheduler once
preempts it for many samples. So the scatter is measured over units (rounds, or blocks of
one window), the number of samples is cut down to what they are worth, and the bounds are
Wilson's for that many, with Student's t for the few units there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import sqrt

from pytest_schedprof.analysis.student import bound_at
from pytest_schedprof.model.verdict import Estimate

MIN_ROUNDS = 3
"""Fewer rounds cannot show how rounds scatter."""


def estimate(
    counts: Sequence[int], totals: Sequence[int], *, rounds: bool, drift: float
) -> Estimate:
    """The share `sum(counts) / sum(totals)` over units, with bounds.

    Args:
        counts: samples of the function in each unit.
        totals: busy samples in each unit.
        rounds: whether units are rounds (else consecutive blocks of one window).
        drift: noise that outlasts a window, which no block of it can show: the standard
            deviation of a share between identical windows, in units of sqrt(p (1 - p)).
            Rounds show it themselves.
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


def with_drift(found: Estimate, old: float, new: float, freedom: int) -> Estimate:
    """A share of one window, had another drift been known."""
    if not found.samples:
        return found
    ratio = sqrt(max(found.dispersion**2 - old**2 * found.samples, 1.0) + new**2 * found.samples)
    quantile = bound_at(max(1, freedom))
    low, high = _wilson(found.value, found.samples / ratio**2, quantile)
    return replace(found, low=round(low, 6), high=round(high, 6), dispersion=round(ratio, 3))


def effective_units(totals: Sequence[int]) -> float:
    """How many units of equal size these are worth: a large one among small ones counts most."""
    return sum(totals) ** 2 / sum(total * total for total in totals)


def degrees_of_freedom(units: float, *, rounds: bool) -> int:
    """Differences of neighbours overlap, so they are worth two thirds of as many deviations."""
    return max(1, round(units) - 1 if rounds else round((units - 1) * 2 / 3))


def _round_variance(residuals: Sequence[float], units: float) -> float:
    """Variance of the residuals' sum, from their squares: what rounds scatter.

    Residuals of a ratio sum to zero, which takes 1 of `units` parts off their squares.
    """
    return sum(value * value for value in residuals) / (1 - 1 / units) if units > 1 else 0.0


def _block_variance(residuals: Sequence[float]) -> float:
    """The same for blocks of one window, from half the mean square difference of neighbours.

    A test has phases (submit, compute, release). Their different shares are not noise; the
    differences of neighbours see a phase change once, deviations from the mean see it in
    every block.
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
