"""Places in the pictures of a black box's ring: steps, because each slice has one figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_schedprof.analysis.rates import Rates, rates_of
from pytest_schedprof.model.ring import Event, KeptRing
from pytest_schedprof.pages.workload_pictures import HEIGHT, TimeAxis, height, round_values
from pytest_schedprof.presentation.rates import (
    Panel,
    clock,
    event_words,
    events_of,
    headline_of,
    panels_of,
)

CLASSES = ("new", "old")
"""Classes of a picture's lines, as in `ring.html`; the second one is dashed."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a slice, and what is told there."""

    left: float
    width: float
    told: str


@dataclass(frozen=True, slots=True)
class Mark:
    """The place of an event, and its text."""

    x: float
    told: str
    is_last: bool
    """Whether it is the one for which the run was written."""


@dataclass(frozen=True, slots=True)
class RingPicture:
    """Curves with one scale."""

    title: str
    names: tuple[tuple[str, str], ...]
    """Class and name of each line."""
    top: str
    """What the height stands for."""
    lines: tuple[tuple[str, str], ...]
    """Class and points of each line."""
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class RingPictures:
    """All pictures of a ring."""

    headline: str
    ticks: tuple[tuple[float, str], ...]
    pictures: tuple[RingPicture, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class _Minutes:
    """Where times by the clock are."""

    begun: float
    axis: TimeAxis

    def x(self, at: float) -> float:
        """Return the place of a time; one outside is at the edge, for a clock may be set."""
        return self.axis.x(min(self.axis.span, max(0.0, at - self.begun)))

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return places and names of round times before the end."""
        span = self.axis.span
        return tuple(
            (self.axis.x(span - each), f"-{each:g} s" if each else "end")
            for each in round_values(span)
        )


def ring_pictures(ring: KeptRing) -> RingPictures:
    """Return the pictures of a ring."""
    rates, events = rates_of(ring), events_of(ring)
    begun = min(each.begun for each in rates)
    span = max(each.ended for each in rates) - begun
    minutes = _Minutes(begun, TimeAxis(max(span, 1e-3)))
    return RingPictures(
        headline_of(rates),
        minutes.ticks(),
        tuple(_picture(panel, rates, minutes) for panel in panels_of(rates)),
        tuple(_marks(events, minutes)),
    )


def _marks(events: Sequence[Event], minutes: _Minutes) -> Iterator[Mark]:
    for number, event in enumerate(events, start=1):
        yield Mark(minutes.x(event.at), event_words(event), number == len(events))


def _picture(panel: Panel, rates: Sequence[Rates], minutes: _Minutes) -> RingPicture:
    most = max(value for curve in panel.curves for value in curve.values)
    places = [(minutes.x(each.begun), minutes.x(each.ended)) for each in rates]
    return RingPicture(
        panel.title,
        tuple(zip(CLASSES, (curve.name for curve in panel.curves), strict=False)),
        panel.curves[0].text(most),
        tuple(
            (name, _steps(places, curve.values, most))
            for name, curve in zip(CLASSES, panel.curves, strict=False)
        ),
        tuple(_slots(panel, rates, places)),
    )


def _steps(places: Sequence[tuple[float, float]], values: Sequence[float], most: float) -> str:
    """Return the points of a curve that is level within each slice."""
    points = []
    for (left, right), value in zip(places, values, strict=True):
        y = height(value, most) if most else float(HEIGHT)
        points += [f"{left:g},{y:g}", f"{right:g},{y:g}"]
    return " ".join(points)


def _slots(
    panel: Panel, rates: Sequence[Rates], places: Sequence[tuple[float, float]]
) -> Iterator[Slot]:
    for number, (each, (left, right)) in enumerate(zip(rates, places, strict=True)):
        told = [f"{curve.name} {curve.text(curve.values[number])}" for curve in panel.curves]
        when = f"{clock(each.begun)} to {clock(each.ended)}"
        yield Slot(left, round(max(0.0, right - left), 1), f"{when}: {', '.join(told)}")
