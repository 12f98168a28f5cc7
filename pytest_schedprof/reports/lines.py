"""Lines of the terminal with their markup, and series as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean

from pytest_schedprof.errors import printable
from pytest_schedprof.model.verdict import Verdict

VERDICT_MARKUP: Mapping[Verdict, dict[str, bool]] = {
    Verdict.PASS: {"green": True},
    Verdict.FAIL: {"red": True},
    Verdict.INCONCLUSIVE: {"yellow": True},
}

BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "_.-~=+*#"
"""Bars for terminals that cannot show the others."""

WIDEST = 40
"""Most columns of a series; of a longer one each bar is the mean of several figures."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the terminal, and no more than one whatever its text; markup has pytest's
    names."""

    text: str
    markup: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", printable(self.text, keep=""))


SHOWN = 20
"""Lines of one kind that a summary shows."""


def capped(lines: Sequence[Line], verbosity: int, most: int = SHOWN) -> list[Line]:
    """Return the first lines and how many more there are; all of them under -v."""
    if verbosity > 0 or len(lines) <= most:
        return list(lines)
    more = Line(f"  and {len(lines) - most} more: -v shows all")
    return [*lines[:most], more]


def sparkline(values: Sequence[float], bars: str, least: float = 0.0) -> str:
    """Return a series as bars.

    Args:
        values: the series.
        bars: characters, the lowest first.
        least: the bars span at least this part of the highest value, so that small changes look
            small.
    """
    if len(values) > WIDEST:
        borders = [number * len(values) // WIDEST for number in range(WIDEST + 1)]
        values = [fmean(values[a:b]) for a, b in pairwise(borders)]
    low, high = min(values), max(values)
    if low == high:
        return bars[len(bars) // 2] * len(values)
    most, span = len(bars) - 1, max(high - low, least * high)
    return "".join(bars[round((value - low) / span * most)] for value in values)


def bars_for(encoding: str | None) -> str:
    """Return the bars that a terminal of this encoding can show."""
    try:
        BARS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN_BARS
    return BARS
