"""A scheduler's last minutes as curves, from the ring of its black box."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import NamedTuple, TypeAlias

from pytest_schedprof.analysis.rates import Rates
from pytest_schedprof.model.metric import BYTES, TIME, Metric, readable
from pytest_schedprof.model.ring import Event, KeptRing
from pytest_schedprof.presentation.amounts import counted

SECONDS, SIZE = Metric(TIME, ""), Metric(BYTES, "")


Curves: TypeAlias = tuple[tuple[str, Callable[[Rates], float]], ...]


class Curve(NamedTuple):
    """One figure, slice by slice."""

    name: str
    values: tuple[float, ...]
    text: Callable[[float], str]
    """Writes a value for people."""


class Panel(NamedTuple):
    """Curves that have one scale."""

    title: str
    curves: tuple[Curve, ...]


def panels_of(rates: Sequence[Rates]) -> tuple[Panel, ...]:
    """Return all that is shown of the last minutes, in order."""
    return tuple(
        Panel(title, tuple(Curve(name, tuple(map(of, rates)), text) for name, of in curves))
        for title, text, curves in PANELS
    )


def headline_of(rates: Sequence[Rates]) -> str:
    """Return which minutes these are."""
    seconds = rates[-1].ended - rates[0].begun
    return f"{seconds:.0f} s until {clock(rates[-1].ended)} UTC in {counted(len(rates), 'slice')}"


def events_of(ring: KeptRing) -> tuple[Event, ...]:
    """Return what happened, in order."""
    return tuple(event for each in ring.slices for event in each.events)


def event_words(event: Event) -> str:
    """Return when something happened, and what."""
    return f"{clock(event.at)} {event.kind}: {event.why}"


def clock(at: float) -> str:
    """Return the time of the day, in UTC."""
    return datetime.fromtimestamp(at, timezone.utc).strftime("%H:%M:%S")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.3g}"


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _seconds(value: float) -> str:
    return readable(value, SECONDS) if value else "0"


def _size(value: float) -> str:
    return readable(value, SIZE)


PANELS: tuple[tuple[str, Callable[[float], str], Curves], ...] = (
    (
        "Tasks and transitions, each second",
        _number,
        (("tasks/s", lambda each: each.tasks), ("transitions/s", lambda each: each.transitions)),
    ),
    (
        "CPU, as a part of a core",
        _percent,
        (("CPU of the loop", lambda each: each.loop), ("CPU in all", lambda each: each.process)),
    ),
    (
        "Longest lag and longest stall of the event loop",
        _seconds,
        (("lag", lambda each: each.lag), ("stall", lambda each: each.stall)),
    ),
    (
        "Messages received and sent, each second",
        _number,
        (("received/s", lambda each: each.received), ("sent/s", lambda each: each.sent)),
    ),
    ("Memory of the process", _size, (("memory", lambda each: each.memory),)),
    (
        "Workers and clients",
        _number,
        (("workers", lambda each: each.workers), ("clients", lambda each: each.clients)),
    ),
)
"""Title, how values are written, and names and figures of the curves."""
