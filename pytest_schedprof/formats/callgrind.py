"""Reader of callgrind's files: the cost of each function, and of each call of one by another."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from pytest_schedprof.errors import FormatError
from pytest_schedprof.model.profile import Function, Stack

HEAD = b"# callgrind format"
"""Begins each file."""

EVENT = "Ir"
"""Callgrind's name for instructions: they are read before they are executed."""

SYMBOL = re.compile(rb"# schedprof-symbol: ([0-9a-f]{1,16}) ([0-9a-f]{1,16}) (.*)\n")
"""A line that the agent adds: address and size in hexadecimal, and a name."""

PYTHON = "py::"
"""Begins the interpreter's names of Python functions."""

C = "c:"
"""Begins the names of functions of C here, in place of a module."""

EVALUATOR = "_PyEval_EvalFrameDefault"
"""The interpreter's loop, whose cost callgrind keeps apart for each of its callers."""

ADDRESS = re.compile(rb"0x[0-9a-f]{16}")
"""The name of a function that callgrind cannot name."""

UNKNOWN = b"[unknown]"

NAME = re.compile(r"\((\d+)\)(?: (.*))?")
"""A name with its number, which stands for it from there on."""

LEVEL = re.compile(r"'\d+(?='|$)")
"""The depth of recursion behind a name."""

MOST = 10**18
"""Largest count; larger ones could not be added up."""


class Call(Struct):
    """All calls of one function by another."""

    count: int = 0
    cost: int = 0
    """With everything that was called in turn."""


class CallGraph(Struct):
    """Costs of functions; those of C are named `c:function`."""

    own: dict[Function, int] = field(default_factory=dict)
    calls: dict[tuple[Function, Function], Call] = field(default_factory=dict)
    """By caller and called function."""

    @property
    def total(self) -> int:
        return sum(self.own.values())


def with_names(content: bytes) -> bytes:
    """Return the file with the names of the agent's symbols in place of addresses.

    Any program that reads such files shows Python functions then.
    """
    symbols = sorted(
        (int(begin, 16), int(size, 16), name) for begin, size, name in SYMBOL.findall(content)
    )
    begins = [begin for begin, _, _ in symbols]

    def name(match: re.Match[bytes]) -> bytes:
        address = int(match[0], 16)
        begin, size, name = symbols[bisect_right(begins, address) - 1] if symbols else (0, 0, b"")
        return name if begin <= address < begin + size else UNKNOWN

    return ADDRESS.sub(name, SYMBOL.sub(b"", content))


def read_callgrind(content: bytes) -> CallGraph:
    """Read a file.

    Raises:
        FormatError: if it is not one of callgrind with counts of instructions.
    """
    reader = _Reader()
    try:
        for line in content.decode("utf-8", "replace").splitlines():
            reader.read(line)
    except (ValueError, LookupError) as error:
        raise _not_callgrinds(str(error), content) from error
    if not reader.has_events:
        raise _not_callgrinds(f"it has no counts of {EVENT}", content)
    return reader.graph


def _not_callgrinds(reason: str, content: bytes) -> FormatError:
    return FormatError(f"schedprof: not a file of callgrind: {reason} ({len(content)} bytes)")


class _Reader:
    """Takes the lines of a file one by one."""

    def __init__(self) -> None:
        self.graph = CallGraph()
        self.has_events = False
        self._names: dict[str, str] = {}
        self._column = 0
        """Number of the column with instructions, after those with positions."""
        self._positions = 1
        self._caller = self._called = ""
        self._count: int | None = None
        """How many calls the next line of costs is about; None if it is about the function."""

    def read(self, line: str) -> None:
        if line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            return self._add(line.split())
        key, _, value = line.partition("=")
        if key == "fn":
            self._caller = self._named(value)
        elif key == "cfn":
            self._called = self._named(value)
        elif key == "calls":
            self._count = _number(value.split()[0])
        key, _, value = line.partition(":")
        if key == "events":
            self._column, self.has_events = value.split().index(EVENT), True
        elif key == "positions":
            self._positions = len(value.split())

    def _named(self, value: str) -> str:
        """Return a function's name: its number may stand for it."""
        match = NAME.fullmatch(value)
        if match is None:
            return function_of(value)
        number, name = match.groups()
        if name is not None:
            self._names[number] = function_of(name)
        return self._names[number]

    def _add(self, columns: list[str]) -> None:
        """Add a line of costs; what is missing at its end is zero."""
        place = self._positions + self._column
        cost = _number(columns[place]) if place < len(columns) else 0
        count, self._count = self._count, None
        if count is None:
            self.graph.own[self._caller] = self.graph.own.get(self._caller, 0) + cost
        elif self._caller != self._called:
            call = self.graph.calls.setdefault((self._caller, self._called), Call())
            call.count += count
            call.cost += cost


def _number(text: str) -> int:
    number = int(text)
    if not 0 <= number <= MOST:
        raise ValueError(f"{text[:30]!r} is no count")
    return number


def function_of(name: str) -> Function:
    """Return the function of a name with its depth of recursion and perhaps its caller.

    What the interpreter's loop does for a Python function is done by that function.
    """
    name = LEVEL.sub("", name)
    head, _, caller = name.partition("'")
    if head == EVALUATOR and caller.startswith(PYTHON):
        name = caller
    return name.removeprefix(PYTHON) if name.startswith(PYTHON) else C + head


def is_python(function: Function) -> bool:
    return not function.startswith(C)


LEAST = 0.0005
"""Part of the whole from which a call has a stack of its own; smaller ones count as the caller's
own cost."""

DEEPEST = 300


class _Function(NamedTuple):
    own: float
    calls: list[tuple[str, float]]

    @property
    def total(self) -> float:
        return self.own + sum(cost for _, cost in self.calls)


def unfolded(graph: CallGraph) -> dict[Stack, int]:
    """Unfold a graph of calls to the costs of stacks, without those too small to be seen.

    The graph does not tell whether what B did for A differs from what it did for others, so each
    call of B is taken as the mean of all. What a function does itself is exact.
    """
    functions = _functions(graph)
    least = LEAST * graph.total
    waiting: list[tuple[Stack, float]] = [
        ((name,), cost) for name, cost in _begun(graph, functions) if cost >= least
    ]
    stacks: dict[Stack, int] = {}
    while waiting:
        stack, amount = waiting.pop()
        own, calls = _divided(functions[stack[-1]], amount, least, len(stack))
        stacks[stack] = stacks.get(stack, 0) + round(own)
        waiting += [((*stack, name), cost) for name, cost in calls]
    return {stack: cost for stack, cost in stacks.items() if cost}


def _begun(graph: CallGraph, functions: Mapping[str, _Function]) -> Iterator[tuple[str, float]]:
    """Yield the functions that ran when counting began, with the part of no call that was seen."""
    called: dict[str, float] = defaultdict(float)
    for (_, name), call in graph.calls.items():
        called[name] += call.cost
    for name, function in functions.items():
        yield name, function.total - called[name]


def _functions(graph: CallGraph) -> dict[str, _Function]:
    calls: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for (caller, called), call in graph.calls.items():
        calls[caller].append((called, float(call.cost)))
    names = {*graph.own, *(name for pair in graph.calls for name in pair)}
    return {name: _Function(graph.own.get(name, 0), calls[name]) for name in names}


def _divided(
    function: _Function, amount: float, least: float, depth: int
) -> tuple[float, list[tuple[str, float]]]:
    """Return a function's own part of an amount, and those of its calls that are large enough."""
    scale = amount / function.total if function.total else 0.0
    calls = [(name, cost * scale) for name, cost in function.calls if cost * scale >= least]
    if depth >= DEEPEST:
        calls = []
    return amount - sum(cost for _, cost in calls), calls
