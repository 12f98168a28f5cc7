"""Counts with `sys.monitoring` (Python 3.12 and newer): events of chosen code, at little cost."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from types import CodeType, FrameType, MappingProxyType
from typing import Any

from .blocks import Flow

FREE_TOOLS = (4, 3)
"""Tool numbers that Python reserves for no particular kind of tool."""

NAME = "schedprof"

Callbacks = dict[int, Callable[..., object]]
"""Callbacks by event."""

Offsets = defaultdict[int, defaultdict[int, int]]
"""How often something happened, by the `id` of the code and by the offset in it.

So what happened in one function is found without a look at all others.
"""

NEVER: Mapping[int, int] = MappingProxyType({})


def _by_code() -> Any:
    return defaultdict(partial(defaultdict, int))


def monitoring() -> Any:
    """Return `sys.monitoring`, or None on Python 3.11 and older."""
    return getattr(sys, "monitoring", None)


class Monitor:
    """Counts calls, and optionally bytecodes, of the given code."""

    def __init__(
        self, codes: list[CodeType], clockwork: list[CodeType], *, bytecodes: bool
    ) -> None:
        self.chosen = {id(code): code for code in codes}
        self.armed: dict[int, CodeType] = {}
        """Code that has local events. It gets them at its first call, because they take long to
        set and most of what is chosen is never called."""
        self.clockwork = {id(code): code for code in clockwork}
        self.paused_by = 0
        self.bytecodes = bytecodes
        self.starts: Offsets = _by_code()
        """Calls by the code's `id` and offset; hashing the code object itself is slower."""
        self.edges: defaultdict[int, defaultdict[tuple[int, int], int]] = _by_code()
        """Jumps by code, and by offset and destination."""
        self.entries: Offsets = _by_code()
        self.exits: Offsets = _by_code()
        self.yields: Offsets = _by_code()
        self.raised: tuple[int, int] | None = None
        self.thrown = 0

    def begin(self) -> bool:
        """Start to count; False if no tool number is free."""
        free = [number for number in FREE_TOOLS if monitoring().get_tool(number) is None]
        if not free:
            return False
        self.tool = free[0]
        monitoring().use_tool_id(self.tool, NAME)
        local, wide = self._callbacks()
        for event, callback in (local | wide).items():
            monitoring().register_callback(self.tool, event, callback)
        self.local = sum(local)
        for code in self.clockwork.values():
            self._arm(code)
        self._arm_running(sys._getframe())
        monitoring().restart_events()  # those that an earlier recording disabled
        monitoring().set_events(self.tool, sum(wide))
        return True

    def _arm(self, code: CodeType) -> None:
        self.armed[id(code)] = code
        monitoring().set_local_events(self.tool, code, self.local)

    def _arm_running(self, frame: FrameType | None) -> None:
        """Arm the code of the functions that run now, of which no start is seen."""
        while frame is not None:
            self._is_of_interest(frame.f_code)
            frame = frame.f_back

    def _is_of_interest(self, code: CodeType) -> bool:
        """Return whether code is chosen or clockwork; arm it when it is seen for the first time."""
        if id(code) in self.armed:
            return True
        if id(code) not in self.chosen:
            return False
        self._arm(code)
        return True

    def holder(self) -> str:
        """Return the names of the tools that have the numbers."""
        return " and ".join(str(monitoring().get_tool(number)) for number in FREE_TOOLS)

    def end(self) -> None:
        """Stop counting and release the tool number."""
        monitoring().set_events(self.tool, 0)
        for code in self.armed.values():
            monitoring().set_local_events(self.tool, code, 0)
        for callbacks in self._callbacks():
            for event in callbacks:
                monitoring().register_callback(self.tool, event, None)
        monitoring().free_tool_id(self.tool)

    def calls_of(self, code: CodeType) -> int:
        """Return how often it was called; a coroutine or generator, how often it was started."""
        return sum(self.starts.get(id(code), NEVER).values())

    def bytecodes_of(self, code: CodeType) -> int:
        """Return how many of its instructions ran."""
        if id(code) not in self.armed:
            return 0
        return sum(self.flow_of(code).executed(code).values())

    def flow_of(self, code: CodeType) -> Flow:
        """Return where control entered and left the code."""
        flow = Flow()
        jumps: Mapping[tuple[int, int], int] = self.edges.get(id(code), {})
        for (offset, destination), times in jumps.items():
            flow.left[offset] += times
            flow.came[destination] += times
        for table, counter in (
            (self.starts, flow.came),
            (self.entries, flow.came),
            (self.exits, flow.left),
            (self.yields, flow.yielded),
        ):
            for offset, times in table.get(id(code), NEVER).items():
                counter[offset] += times
        return flow

    def _callbacks(self) -> tuple[Callbacks, Callbacks]:
        """Return callbacks for events of armed code, and for those of all code."""
        events = monitoring().events
        if not self.bytecodes:
            return {events.PY_RETURN: self._return}, {
                events.PY_START: self._start,
                events.PY_UNWIND: self._unwound,
            }
        local: Callbacks = {
            events.PY_RETURN: self._return,
            events.PY_YIELD: self._yield,
            events.BRANCH: self._jump,
            events.JUMP: self._jump,
        }
        wide: Callbacks = {
            events.PY_START: self._start,
            events.PY_RESUME: self._resume,
            events.RAISE: self._raise,
            events.RERAISE: self._raise,
            events.EXCEPTION_HANDLED: self._handled,
            events.PY_UNWIND: self._unwound,
            events.PY_THROW: self._throw,
        }
        return local, wide

    def _start(self, code: CodeType, offset: int) -> object:
        if not self._is_of_interest(code):
            return monitoring().DISABLE
        if self.paused_by:
            return None
        if id(code) in self.clockwork:
            self.paused_by = id(code)
        else:
            self.starts[id(code)][offset] += 1
        return None

    def _jump(self, code: CodeType, offset: int, destination: int) -> None:
        if not self.paused_by:
            self.edges[id(code)][offset, destination] += 1

    def _resume(self, code: CodeType, offset: int) -> object:
        if not self._is_of_interest(code):
            return monitoring().DISABLE
        if not self.paused_by:
            self.entries[id(code)][offset] += 1
        return None

    def _return(self, code: CodeType, offset: int, value: object) -> None:
        if not self.paused_by:
            self.exits[id(code)][offset] += 1
        elif self.paused_by == id(code):
            self.paused_by = 0

    def _yield(self, code: CodeType, offset: int, value: object) -> None:
        if not self.paused_by:
            self.yields[id(code)][offset] += 1

    def _raise(self, code: CodeType, offset: int, error: BaseException) -> None:
        """Keep where control may leave: the end of an iterator also raises, but is a jump."""
        self.raised = None if self.thrown == id(code) else (id(code), offset)
        self.thrown = 0

    def _throw(self, code: CodeType, offset: int, error: BaseException) -> None:
        """Note an error thrown into a generator, which leaves before any instruction runs."""
        self._is_of_interest(code)
        self.thrown = id(code)

    def _handled(self, code: CodeType, offset: int, error: BaseException) -> None:
        self._leave()
        if not self.paused_by:
            self.entries[id(code)][offset] += 1

    def _unwound(self, code: CodeType, offset: int, error: BaseException) -> None:
        self._leave()
        if self.paused_by == id(code):
            self.paused_by = 0

    def _leave(self) -> None:
        if self.raised is not None and not self.paused_by:
            code, offset = self.raised
            self.exits[code][offset] += 1
