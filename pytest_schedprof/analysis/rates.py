"""Rates of a scheduler over the minutes of a black box's ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_schedprof.model.ring import Figures, KeptRing, RingSlice

LEAST_S = 1.0
"""A run that is written ends a slice, however short. Rates over less than this tell nothing, so
such a slice is counted with the one before."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a scheduler did within a slice, on average if not said otherwise."""

    begun: float
    ended: float
    """Times by the clock."""
    tasks: float
    """Each second, as are transitions and messages."""
    transitions: float
    loop: float
    """Part of a core that the event loop's thread used."""
    process: float
    """Part of a core that the process used; several if above 1."""
    lag: float
    """Seconds, the longest."""
    stall: float
    """CPU seconds, the longest."""
    received: float
    sent: float
    memory: int
    """Bytes of the process at the end, as are workers and clients."""
    workers: int
    clients: int


def rates_of(ring: KeptRing) -> list[Rates]:
    """Return the rates, slice by slice."""
    return [_rates(each) for each in joined(ring.slices, LEAST_S)]


def joined(slices: Sequence[RingSlice], least: float) -> list[RingSlice]:
    """Return slices of at least so many seconds, as far as there are others to join with."""
    found: list[RingSlice] = []
    for each in slices:
        if found and min(_seconds(each), _seconds(found[-1])) < least:
            found[-1] = _both(found[-1], each)
        else:
            found.append(each)
    return found


def _both(one: RingSlice, other: RingSlice) -> RingSlice:
    return replace(
        one,
        ended=other.ended,
        lag=max(one.lag, other.lag),
        stall=max(one.stall, other.stall),
        events=one.events + other.events,
    )


def _seconds(of: RingSlice) -> float:
    return of.ended.at - of.begun.at


def _rates(of: RingSlice) -> Rates:
    begun, ended = of.begun, of.ended
    seconds = max(_seconds(of), 1e-3)  # the clock may have been set

    def rate(before: float, after: float) -> float:
        return max(0.0, after - before) / seconds  # a restart begins counters anew

    return Rates(
        begun=begun.at,
        ended=ended.at,
        tasks=rate(begun.tasks, ended.tasks),
        transitions=rate(begun.transitions, ended.transitions),
        loop=rate(begun.thread_cpu, ended.thread_cpu),
        process=rate(begun.cpu, ended.cpu),
        lag=of.lag,
        stall=of.stall,
        received=rate(_received(begun), _received(ended)),
        sent=rate(begun.sent, ended.sent),
        memory=ended.rss,
        workers=ended.workers,
        clients=ended.clients,
    )


def _received(at: Figures) -> int:
    return sum(at.received.values())
