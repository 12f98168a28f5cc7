"""The ring: slices of the last minutes, each with samples and figures of about ten seconds."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, field
from types import CodeType

from pytest_schedprof.model.ring import Event, Figures

SLICE_S = 10.0

MOST_FRAMES = 100
"""Innermost frames of a stack that are kept."""

MOST_LINES = MOST_CODES = 2000
"""Lines and functions that a slice keeps; a scheduler has a few hundred in ten seconds. After them
functions have one line each, and then there are no more samples."""

MOST_STALLS = 50
"""Functions whose stalls a slice keeps."""

MOST_EVENTS = 20

Line = tuple[int, int]
"""A code object's `id`, and one of its lines."""


@dataclass(slots=True)
class Slice:
    """Some seconds of the scheduler's life."""

    begun: Figures
    ended: Figures | None = None
    codes: dict[int, CodeType] = field(default_factory=dict)
    """Code objects by their `id`; they are alive, so that no other one gets it."""
    lines: dict[Line, int] = field(default_factory=dict)
    stacks: dict[bytes, int] = field(default_factory=dict)
    """Numbers of lines, the innermost first, as bytes of an array."""
    order: array[int] = field(default_factory=lambda: array("I"))
    """The stack of each sample."""
    times: array[float] = field(default_factory=lambda: array("d"))
    """CPU seconds of the thread at each sample."""
    stalls: dict[CodeType | None, tuple[float, float]] = field(default_factory=dict)
    """CPU seconds and seconds of the longest stall, by the function that it was in."""
    lag: float = 0.0
    """Seconds by which the loop was late, at most."""
    events: list[Event] = field(default_factory=list)

    def add(self, frames: list[tuple[CodeType, int]], cpu: float) -> None:
        """Keep the stack of a sample, the innermost frame first."""
        if len(self.codes) >= MOST_CODES:
            return
        if len(self.lines) >= MOST_LINES:
            frames = [(code, code.co_firstlineno) for code, _ in frames]
        number = self.lines.setdefault
        for code, _ in frames:
            self.codes[id(code)] = code
        stack = array("I", [number((id(code), line), len(self.lines)) for code, line in frames])
        self.order.append(self.stacks.setdefault(stack.tobytes(), len(self.stacks)))
        self.times.append(cpu)

    def note_stall(self, code: CodeType | None, cpu: float, wall: float) -> None:
        """Keep a stall if it is the longest of its function."""
        if code not in self.stalls and len(self.stalls) >= MOST_STALLS:
            return
        before = self.stalls.get(code, (0.0, 0.0))
        if cpu >= before[0]:
            self.stalls[code] = cpu, max(wall, before[1])

    def note_event(self, event: Event) -> None:
        """Keep something that happened; of very many the last ones."""
        self.events.append(event)
        del self.events[:-MOST_EVENTS]


class Ring:
    """Slices that have ended, the oldest first, and the one that is under way."""

    def __init__(self, window: float, begun: Figures) -> None:
        self.window = window
        self.current = Slice(begun)
        self.ended: deque[Slice] = deque(maxlen=2 * int(window / SLICE_S))

    def rotate(self, now: Figures) -> None:
        """End the slice under way, begin another one, and forget those that are too old."""
        ended, self.current = self.current, Slice(now)
        ended.ended = now
        self.ended.append(ended)
        while self.ended and now.at - end_of(self.ended[0]).at > self.window:
            self.ended.popleft()


def end_of(ended: Slice) -> Figures:
    """Return the figures at the end of a slice that has ended."""
    assert ended.ended is not None
    return ended.ended
