"""Figures as bars in a line of text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "_.-~=+*#"
"""For terminals that know no other characters."""

WIDEST = 40
"""Columns; of more figures each stands for several."""


def sparkline(values: Sequence[float], bars: str, least: float = 0.0) -> str:
    """Between the lowest and the highest of them, or such a part of the highest if that is more."""
    if len(values) > WIDEST:
        borders = [number * len(values) // WIDEST for number in range(WIDEST + 1)]
        values = [fmean(values[a:b]) for a, b in pairwise(borders)]
    low, high = min(values), max(values)
    if low == high:
        return bars[len(bars) // 2] * len(values)
    most, span = len(bars) - 1, max(high - low, least * high)
    return "".join(bars[round((value - low) / span * most)] for value in values)


def bars_for(encoding: str | None) -> str:
    """Those that a terminal can show."""
    try:
        BARS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN_BARS
    return BARS
