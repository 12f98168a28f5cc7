"""Counts with `sys.settrace` (before Python 3.12), called at each instruction of chosen code."""

from __future__ import annotations

import asyncio
import dis
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from types import CodeType, FrameType
from typing import Any

from .choice import BODY, MOST_ALONE, Answer, Choice, in_offload_thread, is_import, untrace
from .counted import Callers

Tracer = Callable[[FrameType, str, Any], Any]

RunOnLoops = Callable[[Callable[[], None]], None]
"""Runs a function in the thread of each event loop of a scheduler but in this thread."""

RESUME = dis.opmap["RESUME"]
"""Instruction at a function's start (argument 0) and where it resumes."""


class Opcodes:
    """Counts calls, and optionally bytecodes, of chosen code.

    It counts on the thread that begins it, and on the one to which the scheduler offloads the
    intake of graphs. Where `others` is given, in a test's own process, it also counts on threads
    that start from then on and on those of event loops that run already.
    """

    def __init__(
        self,
        choice: Choice,
        clockwork: Iterable[CodeType],
        alone: Iterable[CodeType] = (),
        *,
        bytecodes: bool,
        others: RunOnLoops | None = None,
        periodic: Iterable[Any] = (),
        callers: Callers | None = None,
    ) -> None:
        """Prepare to count.

        Args:
            choice: which code is counted.
            clockwork: code that is not, nor what it calls.
            alone: code that is counted, but not what it calls.
            bytecodes: whether to count them too.
            others: runs a function on the threads of other event loops.
            periodic: Tornado's callbacks, of which those of the clockwork are not traced.
            callers: counts who calls, if that is wanted; instructions are then counted one by one.
        """
        self.choice = choice
        self.clockwork = {id(code) for code in clockwork}
        self.periodic, self.undo = periodic, ExitStack()
        self.alone = {id(code) for code in alone}
        self.bytecodes = bytecodes
        self.callers = callers
        self.others = others
        self.threads: list[ThreadOpcodes] = []
        self.before: Any = None
        """What traced new threads before."""

    def begin(self) -> bool:
        """Start to count; False if another tool traces this thread."""
        if sys.gettrace() is not None:
            return False
        if self.others is not None:
            self.before = threading.gettrace()
            threading.settrace(self._first_call)
            self.others(self._trace)
        in_offload_thread(self._trace)
        untrace(self.periodic, self.clockwork, self.undo)
        self._trace()
        return True

    def _trace(self) -> None:
        """Count on this thread from now on, unless another tool traces it."""
        if sys.gettrace() is None:
            sys.settrace(self._counter().call)

    def _first_call(self, frame: FrameType, event: str, argument: Any) -> Tracer | None:
        """Count on a thread that has just started."""
        counter = self._counter()
        sys.settrace(counter.call)
        return counter.call(frame, event, argument)

    def _counter(self) -> ThreadOpcodes:
        counter = ThreadOpcodes(
            self.choice,
            self.clockwork,
            self.alone,
            bytecodes=self.bytecodes,
            callers=self.callers,
        )
        self.threads.append(counter)
        return counter

    def holder(self) -> str:
        """Return the package of the tool that traces this thread."""
        tracer = sys.gettrace()
        module = getattr(tracer, "__module__", None) or type(tracer).__module__
        return module.partition(".")[0]

    def end(self) -> None:
        """Stop tracing, also in waiting coroutines, which keep their trace function."""
        if getattr(sys.gettrace(), "__self__", None) in self.threads:  # else another tool has it
            sys.settrace(None)
        self.undo.close()
        for thread in self.threads:
            thread.is_over = True
        if getattr(threading.gettrace(), "__self__", None) is self:
            threading.settrace(self.before)
        try:
            tasks = asyncio.all_tasks()  # those of other threads are called no more
        except RuntimeError:  # no loop runs in this thread
            tasks = set()
        for task in tasks:
            for frame in _frames_of(task.get_coro()):
                frame.f_trace = None

    def calls_of(self, code: CodeType) -> int:
        """Return how often it was called; a coroutine or generator, how often it was started."""
        return sum(tally.calls for tally in self._tallies(code))

    def bytecodes_of(self, code: CodeType) -> int:
        """Return how many of its instructions ran."""
        return sum(tally.bytecodes() for tally in self._tallies(code))

    def executed(self, code: CodeType) -> Mapping[int, int]:
        """Return how often each of its instructions ran, by its offset, if that was wanted."""
        sums: Counter[int] = Counter()
        for tally in self._tallies(code):
            sums.update(tally.executed)
        return sums

    def _tallies(self, code: CodeType) -> list[Tally]:
        threads = [thread.tallies for thread in self.threads]
        return [tallies[id(code)] for tallies in threads if id(code) in tallies]


class ThreadOpcodes:
    """The counts of one thread."""

    def __init__(
        self,
        choice: Choice,
        clockwork: set[int],
        alone: Collection[int],
        *,
        bytecodes: bool,
        callers: Callers | None = None,
    ) -> None:
        self.choice = choice
        self.clockwork, self.alone = clockwork, alone
        self.bytecodes = bytecodes
        self.callers = callers
        self.tallies: dict[int, Tally] = {}
        """Counts of the code that was called."""
        self.refused: dict[int, CodeType] = {}
        """Code that is never counted; held, so that no other code gets its `id`."""
        self.is_paused = False
        self.is_over = False
        """Whether this thread is to end its tracing with its next call."""

    def call(self, frame: FrameType, event: str, argument: Any) -> Tracer | None:
        """Trace a call if its code is chosen."""
        code = frame.f_code
        if self.is_over:
            sys.settrace(None)  # it is this object's, which is called
        if self.is_over or id(code) in self.refused:
            return None
        if self.is_paused and code.co_name != BODY:
            return None
        if id(code) in self.clockwork:
            return self._pause(frame)
        tally = self.tallies.get(id(code)) or self._taken(frame)
        if tally is not None:
            return self._count(frame, tally)
        # What an import calls is not counted, whichever module it is of.
        return self._pause(frame) if is_import(frame) and not self.is_paused else None

    def _taken(self, frame: FrameType) -> Tally | None:
        """Return a tally for code that is called for the first time, if it is chosen."""
        answer = self.choice.ask(frame)
        if answer is Answer.NEVER:
            self.refused[id(frame.f_code)] = frame.f_code
        if answer is not Answer.YES:
            return None
        tally = self.tallies[id(frame.f_code)] = Tally(
            frame.f_code, is_detailed=self.callers is not None
        )
        return tally

    def _count(self, frame: FrameType, tally: Tally) -> Tracer | None:
        """Count a call, and its instructions if they are wanted."""
        if frame.f_lasti in tally.starts:
            tally.calls += 1
            if self.callers is not None:
                self.callers.note(frame)
        trace = tally.trace if self.bytecodes else None
        code = frame.f_code
        is_alone = id(code) in self.alone or (code.co_name == BODY and is_import(frame))
        if not self.is_paused and is_alone:
            if tally.calls >= MOST_ALONE:
                self.clockwork.add(id(code))
            return self._pause(frame, trace)
        if trace is not None:
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        return trace

    def _pause(self, frame: FrameType, trace: Tracer | None = None) -> Tracer:
        """Count nothing until this frame returns or raises, but for its own instructions."""
        self.is_paused = True
        frame.f_trace_lines = False
        frame.f_trace_opcodes = trace is not None

        def until_return(frame: FrameType, event: str, argument: Any) -> Tracer:
            if trace is not None:
                trace(frame, event, argument)
            self.is_paused = event != "return"
            return until_return

        return until_return


class Tally:
    """The counts of one code object."""

    def __init__(self, code: CodeType, *, is_detailed: bool = False) -> None:
        self.calls = 0
        self.starts = starts_of(code)
        self.executed: dict[int, int] = {}
        """How often each instruction ran, by its offset; empty unless it is detailed."""
        if is_detailed:
            self.trace, self.bytecodes = locating_tracer(self.executed)
        else:
            self.trace, self.bytecodes = counting_tracer()


def counting_tracer() -> tuple[Tracer, Callable[[], int]]:
    """Return a function that counts instructions and one that returns the count.

    Closures are the fastest way to count here.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Tracer:
        nonlocal count
        if event == "opcode":
            count += 1
        return trace

    return trace, lambda: count


def locating_tracer(executed: dict[int, int]) -> tuple[Tracer, Callable[[], int]]:
    """Return the same, with a function that counts each instruction apart."""

    def trace(frame: FrameType, event: str, argument: Any) -> Tracer:
        if event == "opcode":
            offset = frame.f_lasti
            executed[offset] = executed.get(offset, 0) + 1
        return trace

    return trace, lambda: sum(executed.values())


def starts_of(code: CodeType) -> frozenset[int]:
    """Return the offsets of a frame when it is called, but not when it resumes after a yield."""
    words = code.co_code  # two bytes each; dis is slow for all of the scheduler
    resumes = (
        place
        for place in range(0, len(words), 2)
        if words[place] == RESUME and not words[place + 1]
    )
    return frozenset({-1, *resumes})


def _frames_of(coroutine: Any) -> list[FrameType]:
    """Return the frames of a waiting coroutine and of those that it waits for."""
    frames = []
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None:
            frames.append(frame)
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return frames
