"""Tail probabilities and quantiles of Student's t distribution."""

from __future__ import annotations

from functools import cache
from math import atan, cos, pi, sin, sqrt

CONFIDENCE = 0.95
"""Level of each one-sided bound."""

MANY = 1000
"""Degrees of freedom for an error that is known instead of estimated from a few rounds."""

STEPS = 60
"""Steps of a bisection, enough for the precision of a float."""


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
    term, total = cos(angle), 0.0
    for each in range(3, df + 1, 2):
        total += term
        term *= cos(angle) ** 2 * (each - 1) / each
    return 2 / pi * (angle + sin(angle) * total)


def _even(angle: float, df: int) -> float:
    term = total = 1.0
    for each in range(2, df, 2):
        term *= cos(angle) ** 2 * (each - 1) / each
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
