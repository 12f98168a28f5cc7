"""Computes how often each bytecode ran from jumps: between two jumps code runs in order.

An instruction was executed as often as control entered at or before it, minus the times that
control left before it. So it is enough to count where control enters (starts, resumptions, targets
of jumps, exception handlers) and where it leaves (jumps, returns, yields, raises), which is an
eighth of the instructions, and to add up once at the end.
"""

from __future__ import annotations

import dis
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType

UNSEEN = "JUMP_BACKWARD_NO_INTERRUPT"
"""Jumps back to the SEND of an await, or out of a handler, without any event."""

NEVER_FALL_THROUGH = frozenset(
    {
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
        "JUMP_FORWARD",
        "RAISE_VARARGS",
        "RERAISE",
        "RETURN_CONST",
        "RETURN_VALUE",
        "YIELD_VALUE",
    }
)
"""Instructions after which control never continues with the next instruction."""

MAX_PASSES = 100
"""More than the unseen jumps in a row of any code."""


class Flow:
    """Counts of control entering and leaving one code object, by offset."""

    def __init__(self) -> None:
        self.jumps: Counter[tuple[int, int]] = Counter()
        """Counts of events of jumps, by the offsets that these give."""
        self.came: Counter[int] = Counter()
        """Counts of control entering, and leaving, otherwise."""
        self.left: Counter[int] = Counter()
        self.yielded: Counter[int] = Counter()
        """Counts of control leaving by a yield, apart from other exits."""

    def executed(self, code: CodeType) -> dict[int, int]:
        """Return how often each instruction ran, by its offset.

        How often a jump without an event was taken depends on the flow before it, so the sums are
        repeated until they no longer change.
        """
        instructions = list(dis.get_instructions(code))
        came, left = Counter(self.came), self.left + self.yielded
        for (source, destination), times in _real(self.jumps, instructions):
            came[destination] += times
            left[source] += times
        left = _by_instruction(left, instructions)
        unseen: dict[int, tuple[int, int]] = {}
        for _ in range(MAX_PASSES):
            executed, found = self._sum(instructions, came, left, unseen)
            if found == unseen:
                break
            unseen = found
        return executed

    def _sum(
        self,
        instructions: list[dis.Instruction],
        came: Counter[int],
        left: Counter[int],
        unseen: Unseen,
    ) -> tuple[dict[int, int], Unseen]:
        """Do one pass from the first instruction to the last.

        A flow that is only partly known must not become negative, because a negative flow would
        grow around a loop.
        """
        came = Counter(came)
        for target, times in unseen.values():
            came[target] += times
        running, executed, found = 0, {}, {}
        for each, following in zip(instructions, [*instructions[1:], None], strict=True):
            running += came[each.offset]
            executed[each.offset] = running
            if each.opname == UNSEEN:
                found[each.offset] = (each.argval, running)
            if each.opname in NEVER_FALL_THROUGH:
                running = 0
                continue
            running -= left[each.offset]
            if each.opname == "SEND" and following is not None:
                # If what is awaited has ended it jumps; else control goes on to the yield.
                ended = max(0, running - self.yielded[following.offset])
                found[each.offset] = (each.argval, ended)
                running -= ended
        return executed, found


Unseen = dict[int, tuple[int, int]]
"""Target and count of each jump without an event, by its offset."""


def _real(
    jumps: Counter[tuple[int, int]], instructions: list[dis.Instruction]
) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield the jumps with the instruction that control went to.

    Python 3.14 and newer name a later one: that behind NOT_TAKEN if a branch is not taken, and that
    behind POP_ITER if a loop has ended. They report each other POP_ITER as a jump too, which it is
    not.
    """
    before = {
        following.offset: each
        for each, following in pairwise(instructions)
        if each.opname in ("NOT_TAKEN", "POP_ITER")
    }
    at = {each.offset: each for each in instructions}
    for (source, destination), times in jumps.items():
        passed = before.get(destination)
        if passed is None or at[source].argval == destination:
            yield (source, destination), times
        elif passed.opname == "NOT_TAKEN" or at[source].opname == "FOR_ITER":
            yield (source, passed.offset), times


def _by_instruction(counts: Counter[int], instructions: list[dis.Instruction]) -> Counter[int]:
    """Move counts to instructions: some events give the offset of the cache behind one."""
    offsets = [each.offset for each in instructions]
    result: Counter[int] = Counter()
    for offset, times in counts.items():
        result[offsets[bisect_right(offsets, offset) - 1]] += times
    return result
