"""Unfold a graph of calls to stacks, for pictures.

The graph does not tell whether what B did for A differs from what it did for others, so each call
of B is taken as the mean of all. What a function does itself is exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pytest_schedprof.formats.callgrind import CallGraph
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
