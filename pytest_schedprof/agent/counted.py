"""What was counted of chosen code by events, and what follows from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from types import CodeType, MappingProxyType
from typing import Any

from .blocks import Flow

Offsets = defaultdict[int, defaultdict[int, int]]
"""How often something happened, by the `id` of the code and by the offset in it.

So what happened in one function is found without a look at all others.
"""

NEVER: Mapping[int, int] = MappingProxyType({})


def _zero() -> list[int]:
    return [0]


def _by_code() -> Any:
    return defaultdict(partial(defaultdict, int))


TABLES = ("starts", "edges", "entries", "exits", "yields")
"""Attributes that hold counts, by the `id` of the code."""


class Counted:
    """How often control entered and left code, from which follows how often it ran."""

    def __init__(self) -> None:
        self.armed: dict[int, CodeType] = {}
        """Code that has local events. It gets them at its first call, because they take long to
        set and most code is never called."""
        self.starts: Offsets = _by_code()
        """Calls by the code's `id` and offset; hashing the code object itself is slower."""
        self.edges: defaultdict[int, defaultdict[tuple[int, int], list[int]]] = defaultdict(
            partial(defaultdict, _zero)
        )
        """Jumps by code, and by offset and destination; a number in a list, which is found once
        for each jump, where a number alone would be found and put back."""
        self.entries: Offsets = _by_code()
        self.exits: Offsets = _by_code()
        self.yields: Offsets = _by_code()

    def calls_of(self, code: CodeType) -> int:
        """Return how often it was called; a coroutine or generator, how often it was started."""
        return sum(self.starts.get(id(code), NEVER).values())

    def bytecodes_of(self, code: CodeType) -> int:
        """Return how many of its instructions ran."""
        return sum(self.executed(code).values())

    def executed(self, code: CodeType) -> Mapping[int, int]:
        """Return how often each of its instructions ran, by its offset."""
        return self.flow_of(code).executed(code) if id(code) in self.armed else NEVER

    def flow_of(self, code: CodeType) -> Flow:
        """Return where control entered and left the code."""
        flow = Flow()
        jumps: Mapping[tuple[int, int], list[int]] = self.edges.get(id(code), {})
        flow.jumps.update({jump: times for jump, (times,) in jumps.items()})
        for table, counter in (
            (self.starts, flow.came),
            (self.entries, flow.came),
            (self.exits, flow.left),
            (self.yields, flow.yielded),
        ):
            for offset, times in table.get(id(code), NEVER).items():
                counter[offset] += times
        return flow
