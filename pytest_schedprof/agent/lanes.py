"""Divides the CPU time of a thread among steps, of which one can be inside of another."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from time import thread_time  # virtual clusters do not replace it

COLLECTING = "gc"
"""Step of the garbage collector, whatever it interrupts."""


class Lane:
    """The CPU time of one thread: each moment belongs to the step that was entered last.

    So the steps add up to the time between the first `enter` and the last `leave`.
    """

    def __init__(self, clock: Callable[[], float] = thread_time) -> None:
        self.clock = clock
        self.stack: list[str] = []
        self.mark = 0.0
        """Up to when the time is divided."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self.is_busy = self.is_collecting = False

    def enter(self, step: str, *, is_call: bool = True) -> None:
        """Begin a step; one that goes on, or is directly inside of itself, is no further call."""
        self.is_busy = True
        now = self.clock()
        if self.stack:
            self.seconds[self.stack[-1]] += now - self.mark
        self.calls[step] += is_call and self.stack[-1:] != [step]
        self.stack.append(step)
        self.mark, self.is_busy = now, False

    def leave(self) -> None:
        """End the step that was entered last."""
        self.is_busy = True
        now = self.clock()
        self.seconds[self.stack.pop()] += now - self.mark
        self.mark, self.is_busy = now, False

    def collect(self, phase: str) -> None:
        """Begin or end a collection, unless it interrupts `enter` or `leave`."""
        if phase == "start" and self.stack and not self.is_busy:
            self.is_collecting = True
            self.enter(COLLECTING, is_call=False)
        elif phase == "stop" and self.is_collecting:
            self.is_collecting = False
            self.leave()
