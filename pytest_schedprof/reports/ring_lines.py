"""A scheduler's last minutes as a table of the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_schedprof.analysis.rates import rates_of
from pytest_schedprof.model.ring import KeptRing
from pytest_schedprof.presentation.rates import (
    Curve,
    event_words,
    events_of,
    headline_of,
    panels_of,
)
from pytest_schedprof.reports.lines import WIDEST, Line, sparkline

WIDTH = 15
"""Columns of a name."""

MOST_EVENTS = 5


def ring_lines(ring: KeptRing, bars: str) -> Iterator[Line]:
    """Return a row for each figure, and what happened last.

    Args:
        ring: of a black box.
        bars: characters for series, the lowest first.
    """
    rates = rates_of(ring)
    columns = min(WIDEST, max(len("over time"), len(rates)))
    yield Line(f"the last minutes: {headline_of(rates)}", {"bold": True})
    head = f"  {'':<{WIDTH}}  {'over time':<{columns}}{'least':>12}{'most':>12}{'at the end':>12}"
    yield Line(head, {"light": True})
    for panel in panels_of(rates):
        yield from (_row(curve, columns, bars) for curve in panel.curves)
    events = events_of(ring)
    if len(events) > MOST_EVENTS:
        yield Line(f"  {len(events) - MOST_EVENTS} earlier events are on the page")
    yield from (Line(f"  {event_words(each)}") for each in events[-MOST_EVENTS:])


def _row(curve: Curve, columns: int, bars: str) -> Line:
    values = curve.values
    cells = "".join(f"{curve.text(each):>12}" for each in (min(values), max(values), values[-1]))
    return Line(f"  {curve.name:<{WIDTH}}  {sparkline(values, bars):<{columns}}{cells}")
