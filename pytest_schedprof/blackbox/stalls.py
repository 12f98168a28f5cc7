"""Recognises callbacks that occupy the event loop, from samples by CPU time.

To time each callback would cost the scheduler several percent. Samples tell nearly as much: if two
see the same callback at work, it took at least the CPU time between them. And if C code held a
sample back, the CPU time that passed without one was that of one call. What is told is therefore
a lower bound, and at most two intervals of sampling below the truth.
"""

from __future__ import annotations

import weakref
from asyncio.base_events import BaseEventLoop
from time import perf_counter
from types import CodeType, FrameType
from typing import Any

RUN_ONCE: CodeType = BaseEventLoop._run_once.__code__  # type: ignore[attr-defined]
"""Runs the callbacks of one turn of asyncio's loops; its variable `handle` is the one at work."""


def handle_in(frame: FrameType) -> Any:
    """Return the handle of the callback that a frame of `RUN_ONCE` has called."""
    return frame.f_locals.get("handle")


class Stalls:
    """The callback that was at work when the last sample was taken, and for how long it was."""

    def __init__(self, interval: float, cpu: float) -> None:
        self.interval = interval
        self.last = self.since = cpu
        self.wall = perf_counter()
        self.handle: weakref.ref[Any] | None = None
        self.inside: list[CodeType] = []
        """Functions that all samples of it have in common, the outermost first."""

    def see(self, handle: Any, inside: list[CodeType], cpu: float) -> float:
        """Note a sample; return for how many CPU seconds its callback has been at work.

        Args:
            handle: of the callback; None if the loop itself was at work.
            inside: functions that the callback runs, the outermost first.
            cpu: the thread's CPU time.
        """
        now, held_back = perf_counter(), cpu - self.last > 2 * self.interval
        if handle is not None and self.handle is not None and self.handle() is handle:
            self.inside = common(self.inside, inside)
        else:
            self.handle = None if handle is None else weakref.ref(handle)
            self.since = self.last + self.interval if held_back else cpu
            self.wall = now - (cpu - self.since)
            self.inside = inside
        self.last = cpu
        return cpu - self.since

    @property
    def seconds(self) -> float:
        """For how long the callback has been at work, by the clock."""
        return perf_counter() - self.wall

    @property
    def code(self) -> CodeType | None:
        """The innermost function that the callback was in all the time."""
        return self.inside[-1] if self.inside else None


def common(one: list[CodeType], other: list[CodeType]) -> list[CodeType]:
    """Return the beginning that two stacks have in common."""
    for number, (mine, yours) in enumerate(zip(one, other, strict=False)):
        if mine is not yours:
            return one[:number]
    return one if len(one) <= len(other) else other
