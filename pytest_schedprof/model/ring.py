"""The ring of a black box as its run has it: figures of a scheduler's last minutes, by slices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """Counters of the scheduler at one moment."""

    at: float
    """Time by the clock."""
    cpu: float
    """CPU seconds of the process."""
    thread_cpu: float
    """CPU seconds of the event loop's thread."""
    tasks: int
    """Tasks that finished or failed."""
    transitions: int
    rss: int
    """Bytes of memory of the process."""
    workers: int
    threads: int
    clients: int
    sent: int
    """Messages to workers and clients."""
    batches: int
    """Batches that they were sent in."""
    received: dict[str, int]
    """Messages on streams, by their operation."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something for which a run is written, unless one was written not long before."""

    at: float
    """Time by the clock when it was noticed."""
    kind: str
    """`stall`, `lag`, `core`, `exception`, `exit` or `asked`."""
    why: str


@dataclass(frozen=True, slots=True)
class RingSlice:
    """A slice that has ended, without its samples."""

    begun: Figures
    ended: Figures
    lag: float
    """Seconds by which the loop was late, at most."""
    stall: float
    """CPU seconds of the longest callback."""
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptRing:
    """All slices, the oldest first."""

    slices: tuple[RingSlice, ...]
