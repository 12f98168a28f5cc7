"""Counts by `sys.monitoring`, since Python 3.12: events of chosen code alone, at little cost."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from types import CodeType
from typing import Any

from .blocks import Flow

FREE_TOOLS = (4, 3)
"""Tool numbers that Python leaves to whoever comes; the others have owners."""

NAME = "schedprof"

Callbacks = dict[int, Callable[..., None]]
"""By event."""


def monitoring() -> Any:
    """`sys.monitoring`, which Python 3.11 and older does not have."""
    return getattr(sys, "monitoring", None)


class Monitor:
    """Counts calls, and if wished bytecodes, of the given code."""

    def __init__(
        self, codes: list[CodeType], clockwork: list[CodeType], *, bytecodes: bool
    ) -> None:
        self.codes = codes
        self.clockwork = {id(code): code for code in clockwork}
        self.paused_by = 0
        self.bytecodes = bytecodes
        self.starts: defaultdict[tuple[int, int], int] = defaultdict(int)
        """By offset and the identity of the code: to hash the code itself would take longer."""
        self.edges: defaultdict[tuple[int, int, int], int] = defaultdict(int)
        """Jumps by code, offset and destination."""
        self.entries: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.exits: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.yields: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.raised: tuple[int, int] | None = None
        self.thrown = 0

    def begin(self) -> bool:
        """Whether there was room for one more tool."""
        free = [number for number in FREE_TOOLS if monitoring().get_tool(number) is None]
        if not free:
            return False
        self.tool = free[0]
        monitoring().use_tool_id(self.tool, NAME)
        events = monitoring().events
        local, rare = self._callbacks()
        for event, callback in (local | rare).items():
            monitoring().register_callback(self.tool, event, callback)
        wanted = sum(local) if self.bytecodes else events.PY_START
        for code in self.codes:
            monitoring().set_local_events(self.tool, code, wanted)
        for code in self.clockwork.values():
            monitoring().set_local_events(self.tool, code, events.PY_START | events.PY_RETURN)
        monitoring().set_events(self.tool, sum(rare))
        return True

    def end(self) -> None:
        """Give the tool's number back."""
        monitoring().set_events(self.tool, 0)
        for code in (*self.codes, *self.clockwork.values()):
            monitoring().set_local_events(self.tool, code, 0)
        for callbacks in self._callbacks():
            for event in callbacks:
                monitoring().register_callback(self.tool, event, None)
        monitoring().free_tool_id(self.tool)

    def calls_of(self, code: CodeType) -> int:
        """How often it was called; a coroutine or generator, how often it was begun."""
        return sum(times for (owner, _), times in self.starts.items() if owner == id(code))

    def bytecodes_of(self, code: CodeType) -> int:
        """How many instructions of it ran."""
        return sum(self.flow_of(code).executed(code).values())

    def flow_of(self, code: CodeType) -> Flow:
        """Where control came in and left."""
        flow = Flow()
        for (owner, offset, destination), times in self.edges.items():
            if owner == id(code):
                flow.left[offset] += times
                flow.came[destination] += times
        for table, counter in (
            (self.starts, flow.came),
            (self.entries, flow.came),
            (self.exits, flow.left),
            (self.yields, flow.yielded),
        ):
            for (owner, offset), times in table.items():
                if owner == id(code):
                    counter[offset] += times
        return flow

    def _callbacks(self) -> tuple[Callbacks, Callbacks]:
        """What to call on events of the chosen code, and on events that are set for all code."""
        events = monitoring().events
        if not self.bytecodes:
            return {
                events.PY_START: self._start,
                events.PY_RETURN: self._return,
            }, {events.PY_UNWIND: self._unwound}
        local: Callbacks = {
            events.PY_START: self._start,
            events.PY_RESUME: self._resume,
            events.PY_RETURN: self._return,
            events.PY_YIELD: self._yield,
            events.BRANCH: self._jump,
            events.JUMP: self._jump,
        }
        rare: Callbacks = {
            events.RAISE: self._raise,
            events.RERAISE: self._raise,
            events.EXCEPTION_HANDLED: self._handled,
            events.PY_UNWIND: self._unwound,
            events.PY_THROW: self._throw,
        }
        return local, rare

    def _start(self, code: CodeType, offset: int) -> None:
        if self.paused_by:
            return
        if id(code) in self.clockwork:
            self.paused_by = id(code)
        else:
            self.starts[id(code), offset] += 1

    def _jump(self, code: CodeType, offset: int, destination: int) -> None:
        if not self.paused_by:
            self.edges[id(code), offset, destination] += 1

    def _resume(self, code: CodeType, offset: int) -> None:
        if not self.paused_by:
            self.entries[id(code), offset] += 1

    def _return(self, code: CodeType, offset: int, value: object) -> None:
        if not self.paused_by:
            self.exits[id(code), offset] += 1
        elif self.paused_by == id(code):
            self.paused_by = 0

    def _yield(self, code: CodeType, offset: int, value: object) -> None:
        if not self.paused_by:
            self.yields[id(code), offset] += 1

    def _raise(self, code: CodeType, offset: int, error: BaseException) -> None:
        """Where control leaves, if it does: the end of an iterator raises too, and is a jump."""
        self.raised = None if self.thrown == id(code) else (id(code), offset)
        self.thrown = 0

    def _throw(self, code: CodeType, offset: int, error: BaseException) -> None:
        """What is thrown into a generator comes in and leaves at once: no instruction ran."""
        self.thrown = id(code)

    def _handled(self, code: CodeType, offset: int, error: BaseException) -> None:
        self._leave()
        if not self.paused_by:
            self.entries[id(code), offset] += 1

    def _unwound(self, code: CodeType, offset: int, error: BaseException) -> None:
        self._leave()
        if self.paused_by == id(code):
            self.paused_by = 0

    def _leave(self) -> None:
        if self.raised is not None and not self.paused_by:
            self.exits[self.raised] += 1
