"""Charge C functions to the Python functions that they worked for.

A file of callgrind tells who called whom and how dear that was, but no stacks. So the cost of a C
function is divided among its callers: by the cost of their calls, which is exact as long as no
Python function is called from there; and by the number of their calls where one is, because the
cost of calls would be mostly that of the Python function then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pytest_schedprof.formats.callgrind import Call, CallGraph, is_python

PASSES = 100
"""Most calls of C functions by each other that a cost is passed up."""

ROUNDS = 8
"""How often it is estimated anew how many calls were measured."""

LEAST = 0.5
"""Smallest cost that is passed up."""

Weights = Mapping[str, Mapping[str, float]]
"""For each C function the part of its cost that each caller is charged with."""


def charged(graph: CallGraph) -> dict[str, float]:
    """Return the cost of each Python function with that of the C functions that it called."""
    charges = {name: float(cost) for name, cost in graph.own.items() if is_python(name)}
    passed = {name: float(cost) for name, cost in graph.own.items() if not is_python(name)}
    parts = weights(graph)
    for _ in range(PASSES):
        passed = _passed_up(passed, parts, charges)
        if not passed:
            break
    return charges


def _passed_up(
    costs: Mapping[str, float], parts: Weights, charges: dict[str, float]
) -> dict[str, float]:
    """Charge callers in Python; return what is to be charged to the callers of those in C."""
    passed: dict[str, float] = defaultdict(float)
    for name, cost in costs.items():
        for caller, part in parts.get(name, {}).items() if cost >= LEAST else ():
            if is_python(caller):
                charges[caller] = charges.get(caller, 0.0) + cost * part
            else:
                passed[caller] += cost * part
    return passed


def weights(graph: CallGraph) -> Weights:
    """Return what callers are charged with, for each C function that has any."""
    back = _that_call_python(graph)
    callers: dict[str, dict[str, Call]] = defaultdict(dict)
    for (caller, called), call in graph.calls.items():
        if call.cost and not is_python(called):
            callers[called][caller] = call
    return {
        name: _shared(_counts(graph.own.get(name, 0), calls) if name in back else _costs(calls))
        for name, calls in callers.items()
    }


def _shared(weights: Mapping[str, float]) -> dict[str, float]:
    """Return each weight as a part of all."""
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _costs(calls: Mapping[str, Call]) -> dict[str, float]:
    return {caller: float(call.cost) for caller, call in calls.items()}


def _counts(own: int, calls: Mapping[str, Call]) -> dict[str, float]:
    """Return the number of calls by each caller that were measured.

    Callgrind counts those in imports too, at no cost. A call costs what the function itself takes.
    """
    counts = {caller: float(call.count) for caller, call in calls.items()}
    for _ in range(ROUNDS if own else 0):
        each = own / sum(counts.values())
        counts = {caller: min(counts[caller], call.cost / each) for caller, call in calls.items()}
    return counts


def _that_call_python(graph: CallGraph) -> set[str]:
    """Return the C functions that call Python functions, themselves or through others in C."""
    callers: dict[str, set[str]] = defaultdict(set)
    for (caller, called), call in graph.calls.items():
        if call.cost and not is_python(caller):
            callers[called].add(caller)
    found: set[str] = set()
    waiting = [name for name in callers if is_python(name)]
    while waiting:
        new = callers[waiting.pop()] - found
        found |= new
        waiting += new
    return found
