"""Unfold a graph of calls to stacks, for pictures.

The graph does not tell whether what B did for A differs from what it did for others, so each call
of B is taken as the mean of all. What a function does itself is exact.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_schedprof.formats.callgrind import CallGraph
from pytest_schedprof.formats.speedscope import Frame, SpeedscopeFile
from pytest_schedprof.model.profile import Stack

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
    """Return the cost of each stack that is not too small to be seen."""
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


@dataclass(frozen=True, slots=True)
class Stay:
    """A frame that stayed at the same place of the stack from `start` to `end`."""

    label: str
    depth: int
    start: int
    end: int


def label_of(frame: Frame) -> str:
    """Return function and file, without the line, so that a function's lines are merged."""
    return f"{frame.name} ({frame.file})" if frame.file else frame.name


def stays(stacks: Iterable[tuple[Sequence[str], int]]) -> Iterator[Stay]:
    """Yield each frame for as long as it and its callers stay the same, callees before callers.

    Args:
        stacks: labels from the root on, and how long the stack lasted.
    """
    opened: list[tuple[str, int]] = []
    now = 0
    for stack, length in stacks:
        common = 0  # frames, from the root on, that are still the same
        for (label, _), other in zip(opened, stack, strict=False):
            if label != other:
                break
            common += 1
        yield from _closed(opened, common, now)
        opened.extend((label, now) for label in stack[common:])
        now += length
    yield from _closed(opened, 0, now)


def _closed(opened: list[tuple[str, int]], depth: int, now: int) -> Iterator[Stay]:
    while len(opened) > depth:
        label, start = opened.pop()
        yield Stay(label, len(opened), start, now)


def write_collapsed(file: SpeedscopeFile) -> bytes:
    """Write a line for each stack, sorted: `thread;caller (file);callee (file) 12`."""
    labels = [_safe(label_of(frame)) for frame in file.frames]
    counts: Counter[str] = Counter()
    for thread, stack, count in file.counted():
        counts[";".join([_safe(thread) or "thread", *(labels[frame] for frame in stack)])] += count
    return _lines(counts)


def write_raw(file: SpeedscopeFile) -> bytes:
    """Write collapsed stacks as py-spy does: by line of code, and all threads together."""
    labels = [
        _safe(f"{frame.name} ({frame.file}:{frame.line})" if frame.file else frame.name)
        for frame in file.frames
    ]
    counts: Counter[str] = Counter()
    for _, stack, count in file.counted():
        counts[";".join(labels[frame] for frame in stack)] += count
    return _lines(counts)


def _lines(counts: Counter[str]) -> bytes:
    lines = (f"{stack} {count}\n" for stack, count in sorted(counts.items()))
    return "".join(lines).encode("utf-8", "replace")


def _safe(label: str) -> str:
    """Replace what would end a frame or a line."""
    return " ".join(label.replace(";", ":").split())
