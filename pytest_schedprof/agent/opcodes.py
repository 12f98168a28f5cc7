"""Counts by `sys.settrace`, before Python 3.12: every instruction of chosen code calls back."""

from __future__ import annotations

import asyncio
import dis
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

Tracer = Callable[[FrameType, str, Any], Any]

RESUME = dis.opmap.get("RESUME")
"""Where Python 3.11 begins a function, if its argument is 0; else where it goes on."""


class Opcodes:
    """Counts calls, and if wished bytecodes, of the given code on this thread."""

    def __init__(
        self, codes: list[CodeType], clockwork: list[CodeType], *, bytecodes: bool
    ) -> None:
        self.bytecodes = bytecodes
        self.tallies = {id(code): Tally(code) for code in codes}
        self.clockwork = {id(code) for code in clockwork}
        self.is_paused = False

    def begin(self) -> bool:
        """Whether nobody else traces this thread."""
        if sys.gettrace() is not None:
            return False
        sys.settrace(self._call)
        return True

    def end(self) -> None:
        """Coroutines that wait keep what traces them: take it away."""
        sys.settrace(None)
        for task in asyncio.all_tasks():
            for frame in _frames_of(task.get_coro()):
                frame.f_trace = None

    def calls_of(self, code: CodeType) -> int:
        """How often it was called; a coroutine or generator, how often it was begun."""
        return self.tallies[id(code)].calls

    def bytecodes_of(self, code: CodeType) -> int:
        """How many instructions of it ran."""
        return self.tallies[id(code)].bytecodes()

    def _call(self, frame: FrameType, event: str, argument: Any) -> Tracer | None:
        if self.is_paused:
            return None
        if id(frame.f_code) in self.clockwork:
            return self._pause(frame)
        tally = self.tallies.get(id(frame.f_code))
        if tally is None:
            return None
        tally.calls += frame.f_lasti in tally.starts
        if not self.bytecodes:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return tally.trace

    def _pause(self, frame: FrameType) -> Tracer:
        """Count nothing until this frame returns, in whatever way."""
        self.is_paused = True
        frame.f_trace_lines = False
        return self._until_return

    def _until_return(self, frame: FrameType, event: str, argument: Any) -> Tracer:
        self.is_paused = event != "return"
        return self._until_return


class Tally:
    """The counts of one code object."""

    def __init__(self, code: CodeType) -> None:
        self.calls = 0
        self.starts = starts_of(code)
        self.trace, self.bytecodes = counting_tracer()


def counting_tracer() -> tuple[Tracer, Callable[[], int]]:
    """What counts instructions, and what tells how many: a closure is what is quickest here."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Tracer:
        nonlocal count
        if event == "opcode":
            count += 1
        return trace

    return trace, lambda: count


def starts_of(code: CodeType) -> frozenset[int]:
    """Where a frame stands when it is called, and not when it goes on after a yield."""
    words = code.co_code  # instructions of two bytes; all of the scheduler's take dis a while
    resumes = (at for at in range(0, len(words), 2) if words[at] == RESUME and not words[at + 1])
    return frozenset({-1, *resumes})


def _frames_of(coroutine: Any) -> list[FrameType]:
    """The frames of a coroutine that waits, and of those that it waits for."""
    frames = []
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None:
            frames.append(frame)
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return frames
