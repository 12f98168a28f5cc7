"""Bytecodes executed, from the jumps alone: code runs straight on between two of them.

An instruction was executed as often as control came in at it or before it, less as often as
control left before it. So it is enough to count where control comes in (starts, resumptions,
targets of jumps, handlers of exceptions) and where it leaves (jumps, returns, yields, raises),
which is an eighth of the instructions, and to add up once at the end.
"""

from __future__ import annotations

import dis
from bisect import bisect_right
from collections import Counter
from types import CodeType

UNSEEN = "JUMP_BACKWARD_NO_INTERRUPT"
"""Leaps back to the SEND of an await, or out of a handler, without any event."""

NO_WAY_ON = frozenset(
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
"""Control never runs on to what follows these."""

MOST_PASSES = 100
"""More than any code has unseen jumps in a row."""


class Flow:
    """Where control came in and left, by offset, in one code object."""

    def __init__(self) -> None:
        self.came: Counter[int] = Counter()
        self.left: Counter[int] = Counter()
        self.yielded: Counter[int] = Counter()
        """Those that left by a yield, which is an end of its own."""

    def executed(self, code: CodeType) -> dict[int, int]:
        """How often each instruction ran, by its offset.

        What goes over a jump that has no event is known only when the flow up to it is, so the
        sums are made again until nothing more is found.
        """
        instructions = list(dis.get_instructions(code))
        left = _by_instruction(self.left + self.yielded, instructions)
        unseen: dict[int, tuple[int, int]] = {}
        for _ in range(MOST_PASSES):
            executed, found = self._sum(instructions, left, unseen)
            if found == unseen:
                break
            unseen = found
        return executed

    def _sum(
        self, instructions: list[dis.Instruction], left: Counter[int], unseen: Unseen
    ) -> tuple[dict[int, int], Unseen]:
        """One pass from the first instruction to the last.

        A flow that is not yet known in full must not be taken for a negative one, which would
        feed itself around a loop.
        """
        came = Counter(self.came)
        for target, times in unseen.values():
            came[target] += times
        running, executed, found = 0, {}, {}
        for each, following in zip(instructions, [*instructions[1:], None], strict=True):
            running += came[each.offset]
            executed[each.offset] = running
            if each.opname == UNSEEN:
                found[each.offset] = (each.argval, running)
            if each.opname in NO_WAY_ON:
                running = 0
                continue
            running -= left[each.offset]
            if each.opname == "SEND" and following is not None:
                # What was awaited has ended, or else it goes on to the yield.
                ended = max(0, running - self.yielded[following.offset])
                found[each.offset] = (each.argval, ended)
                running -= ended
        return executed, found


Unseen = dict[int, tuple[int, int]]
"""Target and count of each jump without an event, by its offset."""


def _by_instruction(counts: Counter[int], instructions: list[dis.Instruction]) -> Counter[int]:
    """Some events name the cache behind an instruction, which has an offset too."""
    offsets = [each.offset for each in instructions]
    result: Counter[int] = Counter()
    for offset, times in counts.items():
        result[offsets[bisect_right(offsets, offset) - 1]] += times
    return result
