"""What was counted of chosen code by events, and what follows from it."""

from __future__ import annotations

import dis
import sys
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import CodeType, FrameType, MappingProxyType
from typing import Any, NamedTuple

from .choice import module_of

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


class Instruction(NamedTuple):
    """As much of one as the counts need, since those of all code that ran are kept."""

    offset: int
    opname: str
    target: int
    """Where it jumps to; -1 if it never jumps."""

    @property
    def is_end(self) -> bool:
        """Whether control never continues with the next instruction."""
        return self.opname in NEVER_FALL_THROUGH


JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})
CACHE, LONGER = dis.opmap.get("CACHE", 0), dis.EXTENDED_ARG


def instructions_of(code: CodeType) -> list[Instruction]:
    """Return the instructions as `dis` tells them, which takes ten times as long for all else."""
    if sys.version_info >= (3, 14):  # whose jumps were not compared
        return [
            Instruction(one.offset, one.opname, one.argval if one.opcode in JUMPS else -1)
            for one in dis.get_instructions(code)
        ]
    units, instructions, longer = code.co_code, [], 0
    offsets = [offset for offset in range(0, len(units), 2) if units[offset] != CACHE]
    for offset, following in pairwise([*offsets, len(units)]):
        number, argument, target = units[offset], units[offset + 1] | longer, -1
        longer = argument << 8 if number == LONGER else 0
        name = dis.opname[number]
        if number in JUMPS:
            target = following + 2 * (-argument if "BACKWARD" in name else argument)
        instructions.append(Instruction(offset, name, target))
    return instructions


class Shape:
    """What of some code is the same in all counts of it; to find it out takes longest."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.instructions = instructions_of(code)
        self.offsets = [instruction.offset for instruction in self.instructions]
        self.at = dict(zip(self.offsets, self.instructions, strict=True))
        self.after = dict(pairwise(self.offsets))
        self.passed = {
            self.after[instruction.offset]: instruction
            for instruction in self.instructions[:-1]
            if instruction.opname in ("NOT_TAKEN", "POP_ITER")
        }
        """What is before an instruction, if an event of a jump to that may mean it."""
        self.spans: dict[int, int] = {}
        """How many instructions run from each one to the next end, that included."""
        length = 0
        for instruction in reversed(self.instructions):
            length = 1 if instruction.is_end else length + 1
            self.spans[instruction.offset] = length
        has_unseen = any(
            instruction.opname in (UNSEEN, "SEND") for instruction in self.instructions
        )
        self.stops = [
            instruction
            for instruction in self.instructions
            if has_unseen and (instruction.is_end or instruction.opname == "SEND")
        ]
        """Where control may go on elsewhere without an event, or ends; none if events tell all."""
        self.stop_offsets = [stop.offset for stop in self.stops]

    def real(self, jump: tuple[int, int]) -> tuple[int, int] | None:
        """Return a jump with the instruction that control went to; None if there was none.

        Python 3.14 and newer name a later one: that behind NOT_TAKEN if a branch is not taken, and
        that behind POP_ITER if a loop has ended. They report each other POP_ITER as a jump too,
        which it is not.
        """
        source, destination = jump
        passed = self.passed.get(destination)
        if passed is None or self.at[source].target == destination:
            return jump
        if passed.opname == "NOT_TAKEN" or self.at[source].opname == "FOR_ITER":
            return source, passed.offset
        return None

    def instruction_at(self, offset: int) -> int:
        """Return the offset of an instruction: some events give that of the cache behind one."""
        return self.offsets[bisect_right(self.offsets, offset) - 1]

    def stop_after(self, offset: int) -> int:
        """Return the number of the first stop that control meets from an instruction on."""
        return bisect_left(self.stop_offsets, offset)


_shapes: dict[int, Shape] = {}
"""By the `id` of the code, which a shape holds: to hash code takes as long as to look at it."""


def shape_of(code: CodeType) -> Shape:
    if (shape := _shapes.get(id(code))) is None:
        shape = _shapes[id(code)] = Shape(code)
    return shape


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

    def total(self, code: CodeType) -> int:
        """Return how many instructions ran."""
        shape = shape_of(code)
        came, left = self._moves(shape)
        ran = sum(shape.spans.get(offset, 0) * times for offset, times in came.items())
        return ran - sum((shape.spans[offset] - 1) * times for offset, times in left.items())

    def executed(self, code: CodeType) -> dict[int, int]:
        """Return how often each instruction ran, by its offset."""
        shape = shape_of(code)
        came, left = self._moves(shape)
        running, executed = 0, {}
        for instruction in shape.instructions:
            running += came[instruction.offset]
            executed[instruction.offset] = running
            running = 0 if instruction.is_end else running - left[instruction.offset]
        return executed

    def _moves(self, shape: Shape) -> tuple[Counter[int], Counter[int]]:
        """Return how often control came to instructions, and left them not for the next one."""
        came, left = Counter(self.came), Counter[int]()
        for jump, times in self.jumps.items():
            if (real := shape.real(jump)) is not None:
                came[real[1]] += times
                left[shape.instruction_at(real[0])] += times
        for exits in (self.left, self.yielded):
            for offset, times in exits.items():
                left[shape.instruction_at(offset)] += times
        for source, times in self._unseen(shape, came, left).items():
            came[shape.at[source].target] += times
            left[source] += times
        return came, left

    def _unseen(self, shape: Shape, came: Counter[int], left: Counter[int]) -> dict[int, int]:
        """Return how often each jump without an event was taken, by its offset.

        That depends on the flow before it, so the sums are repeated until they no longer change. A
        flow that is only partly known must not become negative, because a negative flow would grow
        around a loop.
        """
        if not shape.stops:
            return {}
        between = [0] * (len(shape.stops) + 1)
        for offset, times in came.items():
            between[shape.stop_after(offset)] += times
        for offset, times in left.items():
            if offset not in shape.stop_offsets:
                between[shape.stop_after(offset)] -= times
        unseen: dict[int, int] = {}
        for _ in range(MAX_PASSES):
            coming = [*between]
            for source, times in unseen.items():
                coming[shape.stop_after(shape.at[source].target)] += times
            running, taken = 0, {}
            for stop, more in zip(shape.stops, coming, strict=False):
                running += more
                if stop.opname == UNSEEN:
                    taken[stop.offset] = running
                if stop.is_end:
                    running = 0
                    continue
                # If what is awaited has ended it jumps; else control goes on to the yield.
                running -= left[stop.offset]
                ended = max(0, running - self.yielded[shape.after[stop.offset]])
                taken[stop.offset] = ended
                running -= ended
            if taken == unseen:
                break
            unseen = taken
        return unseen


Offsets = defaultdict[int, defaultdict[int, int]]
"""How often something happened, by the `id` of the code and by the offset in it.

So what happened in one function is found without a look at all others.
"""

NEVER: Mapping[int, int] = MappingProxyType({})


def _by_code(number: Callable[[], Any] = int) -> Any:
    return defaultdict(partial(defaultdict, number))


class Counted:
    """How often control entered and left code, from which follows how often it ran."""

    def __init__(self) -> None:
        self.armed: dict[int, CodeType] = {}
        """Code that has local events. It gets them at its first call, because they take long to
        set and most code is never called."""
        self.starts: Offsets = _by_code()
        """Calls by the code's `id` and offset; hashing the code object itself is slower."""
        self.edges: defaultdict[int, defaultdict[tuple[int, int], list[int]]] = _by_code(
            lambda: [0]
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
        key = id(code)
        if key not in self.armed:
            return 0
        shape = shape_of(code)
        if shape.stops or shape.passed or key in self.entries:
            return self.flow_of(code).total(code)
        # As with most code each event tells where control came from, or went.
        spans, positions = shape.spans, shape.instruction_at
        starts = self.starts.get(key, NEVER)
        ran = sum(spans.get(offset, 0) * times for offset, times in starts.items())
        for (source, destination), (times,) in self.edges.get(key, {}).items():
            ran += (spans.get(destination, 0) - spans[positions(source)] + 1) * times
        for table in (self.exits, self.yields):
            for offset, times in table.get(key, NEVER).items():
                ran -= (spans[positions(offset)] - 1) * times
        return ran

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


class Callers:
    """How often which code called which other code."""

    def __init__(self) -> None:
        self.counts: defaultdict[tuple[int, int], int] = defaultdict(int)
        """Calls by the `id` of the called and of the calling code."""
        self.codes: dict[int, tuple[str, CodeType]] = {}
        """Module and code of the callers, which keeps their `id`s their own."""

    def note(self, frame: FrameType) -> None:
        """Count a call of a frame's code by the code that it was called from."""
        caller = frame.f_back
        if caller is None:
            return
        key = id(caller.f_code)
        if key not in self.codes:
            self.codes[key] = (module_of(caller), caller.f_code)
        self.counts[id(frame.f_code), key] += 1

    def by_name(self, functions: Mapping[str, Sequence[CodeType]]) -> dict[str, dict[str, int]]:
        """Return the calls of each function by the functions that called it.

        Args:
            functions: the code of each function that was counted; others are named by their code.
        """
        names = {id(code): name for name, codes in functions.items() for code in codes}
        calls: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (called, calling), times in self.counts.items():
            if called in names:
                module, code = self.codes[calling]
                caller = names.get(calling) or f"{module}:{code.co_qualname}"
                calls[names[called]][caller] += times
        return {name: dict(sorted(callers.items())) for name, callers in sorted(calls.items())}


def lines_of(codes: Sequence[CodeType], executed: Sequence[Mapping[int, int]]) -> dict[int, int]:
    """Return how many instructions of each line ran, by how often each instruction did.

    The first code's file is the one that is meant: a replacement of a function may be in another.
    """
    lines: Counter[int] = Counter()
    for code, times in zip(codes, executed, strict=True):
        if code.co_filename != codes[0].co_filename:
            continue
        starts = [(start, line) for start, _, line in code.co_lines()]
        offsets = [start for start, _ in starts]
        for offset, count in times.items():
            line = starts[bisect_right(offsets, offset) - 1][1]
            if count:  # what belongs to no line is of the function's begin
                lines[code.co_firstlineno if line is None else line] += count
    return dict(sorted(lines.items()))
