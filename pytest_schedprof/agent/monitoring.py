"""Counts with `sys.monitoring` (Python 3.12 and newer): events of chosen code, at little cost."""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import wraps
from types import CodeType, FrameType
from typing import Any

from .choice import MOST_ALONE, Answer, Choice, in_offload_thread, is_import, untrace
from .counted import Callers, Counted, Offsets

FREE_TOOLS = (4, 3)
"""Tool numbers that Python reserves for no particular kind of tool."""

NAME = "schedprof"

Callbacks = dict[int, Callable[..., object]]
"""Callbacks by event."""


def monitoring() -> Any:
    """Return `sys.monitoring`, or None on Python 3.11 and older."""
    return getattr(sys, "monitoring", None)


_anybody: Callable[[], int] = int
"""Returns 0 in every thread, as fast as `get_ident` returns the thread's number."""


class Monitor(Counted):
    """Counts calls, and optionally bytecodes, of chosen code."""

    def __init__(
        self,
        choice: Choice,
        clockwork: Iterable[CodeType],
        alone: Iterable[CodeType] = (),
        *,
        bytecodes: bool,
        others: object = None,
        periodic: Iterable[Any] = (),
        callers: Callers | None = None,
    ) -> None:
        """Prepare to count.

        Args:
            choice: which code is counted.
            clockwork: code that is not, nor what it calls.
            alone: code that is counted, but not what it calls.
            bytecodes: whether to count them too.
            others: what runs on other event loops; if there is any, all threads are counted.
            callers: counts who calls, if that is wanted.
            periodic: callbacks of the event loop, which run without any event if their code is
                not counted. Other threads must do nothing meanwhile, for they would not count.
        """
        super().__init__()
        self.choice = choice
        self.tool: int | None = None
        """The tool number while it counts."""
        self.alone = {id(code): code for code in alone}
        self.clockwork = {id(code): code for code in clockwork}
        self.periodic, self.undo = periodic, ExitStack()
        self.registered: Callbacks = {}
        self.pausing = {*self.clockwork, *self.alone}
        """While code with one of these `id`s runs, nothing else is counted."""
        self.bodies = set(self.alone)
        """The `id` of code that is counted itself while what it calls is not: that of modules that
        are imported, once, in the first test that needs them."""
        self.ident: Callable[[], int] = _anybody if others else get_ident
        """Returns what the calling thread is known by in `threads`."""
        self.threads = {self.ident()}
        """The threads that count: the one that begins, and the one to which the scheduler offloads
        the intake of graphs; or all."""
        self.is_guarded = False
        """Whether all callbacks ask which thread it is."""
        self.paused: dict[int, int] = {}
        """The `id` of the code for which a thread pauses, by the thread's number."""
        self.bytecodes = bytecodes
        self.rests: int = monitoring().events.PY_YIELD | monitoring().events.PY_RESUME
        """Events of a coroutine that waits. Calls alone need them only of code that pauses, for
        what runs meanwhile is counted."""
        self.callers = callers
        self.raised: dict[int, tuple[int, int]] = {}
        """Where control may leave, code and offset, by the thread's number."""
        self.thrown: dict[int, int] = {}

    def begin(self) -> bool:
        """Start to count; False if no tool number is free."""
        free = [number for number in FREE_TOOLS if monitoring().get_tool(number) is None]
        if not free:
            return False
        monitoring().use_tool_id(free[0], NAME)
        self.tool = free[0]
        self.threads.add(self.ident())
        in_offload_thread(lambda: self.threads.add(self.ident()))
        local, wide = self._callbacks()
        self._register(local | wide)
        rests = 0 if self.bytecodes else self.rests
        self.local = sum(local) & ~rests
        for code in self.clockwork.values():
            self._arm(code)
        frame: FrameType | None = sys._getframe()
        while frame is not None:  # of the functions that run now no start is seen
            self._find(frame)
            frame = frame.f_back
        if self.ident is get_ident and self._is_run_elsewhere():
            self._guard()
        monitoring().restart_events()  # those that an earlier recording disabled
        monitoring().set_events(self.tool, sum(wide) & ~rests)
        untrace(self.periodic, self.clockwork, self.undo, self._silent)
        return True

    def _register(self, callbacks: Mapping[int, Callable[..., object] | None]) -> None:
        for event, callback in callbacks.items():
            monitoring().register_callback(self.tool, event, callback)
            if callback is not None:
                self.registered[event] = callback

    def _silent(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """Return a function that runs another one while no event has a callback.

        An event then costs next to nothing, and setting it anew for all code would be slow.
        """

        @wraps(function)
        def call() -> Any:
            registered = dict(self.registered)
            self._register(dict.fromkeys(registered))
            try:
                return function()
            finally:
                self._register(registered)

        return call

    def _arm(self, code: CodeType) -> None:
        self.armed[id(code)] = code
        events = self.local | (self.rests if id(code) in self.pausing else 0)
        monitoring().set_local_events(self.tool, code, events)

    def _find(self, frame: FrameType) -> Answer:
        """Return whether something is to be done for the code of a frame, and arm it if so.

        What an import calls is not, whichever module it is of.
        """
        code = frame.f_code
        answer, is_body = self.choice.ask(frame), is_import(frame)
        if is_body:
            self.pausing.add(id(code))
            self.bodies.update({id(code)} if answer is Answer.YES else ())
            answer = Answer.YES
        if answer is Answer.YES:
            self._arm(code)
        return answer

    def _is_of_thread(self) -> bool:
        return self.ident() in self.threads

    def holder(self) -> str:
        """Return the names of the tools that have the numbers."""
        return " and ".join(str(monitoring().get_tool(number)) for number in FREE_TOOLS)

    def end(self) -> None:
        """Stop counting and release the tool number, if it has one still."""
        self.undo.close()
        if self.tool is None:
            return
        monitoring().set_events(self.tool, 0)
        for code in self.armed.values():
            monitoring().set_local_events(self.tool, code, 0)
        self._register(dict.fromkeys(self.registered))
        monitoring().free_tool_id(self.tool)
        self.tool = None

    def _callbacks(self) -> tuple[Callbacks, Callbacks]:
        """Return callbacks for events of armed code, and for those of all code."""
        events = monitoring().events
        local: Callbacks = {
            events.PY_RETURN: self._on_exit(self.exits),
            events.PY_YIELD: self._on_exit(self.yields),
        }
        wide: Callbacks = {
            events.PY_START: self._on_start(),
            events.PY_RESUME: self._on_resume(),
            events.PY_UNWIND: self._unwound,
        }
        if self.bytecodes:
            local |= dict.fromkeys((events.BRANCH, events.JUMP), self._on_jump())
            wide |= {
                events.RAISE: self._raise,
                events.RERAISE: self._raise_again,
                events.EXCEPTION_HANDLED: self._handled,
                events.PY_THROW: self._throw,
            }
        return local, wide

    # The callbacks for the events that are most frequent are closures: names of a function are
    # found faster than attributes, and each call of a function costs as much as all the rest.

    def _on_jump(self) -> Callable[..., object]:
        edges, bodies, paused = self.edges, self.bodies, self.paused

        def jump(code: CodeType, offset: int, destination: int) -> None:
            if not paused or get_ident() not in paused or id(code) in bodies:
                edges[id(code)][offset, destination][0] += 1

        return jump

    def _on_exit(self, table: Offsets) -> Callable[..., object]:
        bodies, paused = self.bodies, self.paused

        def leave(code: CodeType, offset: int, value: object) -> None:
            if not paused or get_ident() not in paused:
                table[id(code)][offset] += 1
                return
            if id(code) in bodies:
                table[id(code)][offset] += 1
            self._end_pause(code)

        return leave

    def _guard(self) -> None:
        """Let all callbacks ask which thread it is, from now on: a foreign one runs chosen code.

        That is rare, so until it happens only those for the start of code ask.
        """
        if self.is_guarded:
            return
        self.is_guarded = True
        local, _ = self._callbacks()
        self._register({event: self._guarded(callback) for event, callback in local.items()})

    def _guarded(self, callback: Callable[..., object]) -> Callable[..., object]:
        threads, ident = self.threads, self.ident

        def guarded(code: CodeType, offset: int, argument: object) -> None:
            if ident() in threads:
                callback(code, offset, argument)

        return guarded

    def _is_run_elsewhere(self) -> bool:
        """Whether another thread is in chosen code now."""
        for ident, innermost in sys._current_frames().items():
            frame: FrameType | None = innermost if ident != get_ident() else None
            while frame is not None:
                if self._find(frame) is Answer.YES:
                    return True
                frame = frame.f_back
        return False

    def _on_start(self) -> Callable[..., object]:
        threads, ident, starts, armed = self.threads, self.ident, self.starts, self.armed
        pausing, bodies, disable = self.pausing, self.bodies, monitoring().DISABLE
        paused = self.paused
        note = self.callers.note if self.callers else None

        def start(code: CodeType, offset: int) -> object:
            key = id(code)
            if key not in armed:
                answer = self._find(sys._getframe(1))
                if answer is not Answer.YES:
                    return disable if answer is Answer.NEVER else None
            if ident() not in threads:
                self._guard()
                return None
            if paused and key not in bodies and get_ident() in paused:
                return None
            if key in pausing:
                self._begin_pause(key, offset)
                return None
            starts[key][offset] += 1
            if note is not None:
                note(sys._getframe(1))
            return None

        return start

    def _on_resume(self) -> Callable[..., object]:
        threads, ident, entries, armed = self.threads, self.ident, self.entries, self.armed
        pausing, bodies, disable = self.pausing, self.bodies, monitoring().DISABLE
        paused = self.paused

        def resume(code: CodeType, offset: int) -> object:
            key = id(code)
            if key not in armed:
                answer = self._find(sys._getframe(1))
                if answer is not Answer.YES:
                    return disable if answer is Answer.NEVER else None
            if ident() not in threads:
                self._guard()
                return None
            if key in bodies or not ((paused and get_ident() in paused) or key in pausing):
                entries[key][offset] += 1
            if key in pausing:
                paused.setdefault(get_ident(), key)
            return None

        return resume

    def _begin_pause(self, key: int, offset: int) -> None:
        """Count nothing but code in `bodies` on this thread from now on, this call included."""
        self.paused.setdefault(get_ident(), key)
        if self.starts[key][offset] >= MOST_ALONE:
            self.bodies.discard(key)
        if key in self.bodies:
            self.starts[key][offset] += 1

    def _end_pause(self, code: CodeType) -> None:
        if self.paused.get(get_ident()) == id(code):
            del self.paused[get_ident()]

    def _raise(self, code: CodeType, offset: int, error: BaseException) -> None:
        """Keep where control may leave; the traceback says it.

        Python 3.13 names the instruction before one that called a function without a frame of C,
        and whether it does that hangs on how often the code has run.
        """
        trace = error.__traceback__
        if trace is not None and trace.tb_frame.f_code is code:
            offset = trace.tb_lasti
        self._raise_again(code, offset, error)

    def _raise_again(self, code: CodeType, offset: int, error: BaseException) -> None:
        """Keep where control may leave: the end of an iterator also raises, but is a jump."""
        if not self._is_of_thread():
            return
        thread = get_ident()
        if self.thrown.pop(thread, 0) == id(code):
            self.raised.pop(thread, None)
        else:
            self.raised[thread] = id(code), offset

    def _throw(self, code: CodeType, offset: int, error: BaseException) -> None:
        """Note an error thrown into a generator, which leaves before any instruction runs."""
        if id(code) not in self.armed:
            self._find(sys._getframe(1))
        if self._is_of_thread():
            self.thrown[get_ident()] = id(code)

    def _handled(self, code: CodeType, offset: int, error: BaseException) -> None:
        self._leave()
        if id(code) in self.armed and self._is_of_thread() and not self._is_paused_for(id(code)):
            self.entries[id(code)][offset] += 1

    def _unwound(self, code: CodeType, offset: int, error: BaseException) -> None:
        self._leave()
        self._end_pause(code)

    def _leave(self) -> None:
        if raised := self.raised.get(get_ident()):
            code, offset = raised
            if code in self.armed and not self._is_paused_for(code):
                self.exits[code][offset] += 1

    def _is_paused_for(self, key: int) -> bool:
        """Whether this thread does not count code with that `id` now."""
        return get_ident() in self.paused and key not in self.bodies
