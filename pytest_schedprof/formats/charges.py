"""Charge C functions to the Python functions that they worked for.

A file of callgrind tells who called whom and how dear that was, but no stacks. So the cost of a C
function is divided among its callers: by the cost of their calls, which is exact as long as no
Python function is called from there; and by the number of their calls where one is, because the
cost of calls would be mostly that of the Python function then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pytest_schedprof.formats.callgrind import CallGraph, is_python

PASSES = 100
"""Most calls of C functions by each other that a cost is passed up."""

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
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for (caller, called), call in graph.calls.items():
        if not is_python(called):
            found[called][caller] = float(call.count if called in back else call.cost)
    return {
        name: {caller: weight / total for caller, weight in callers.items()}
        for name, callers in found.items()
        if (total := sum(callers.values()))
    }


def _that_call_python(graph: CallGraph) -> set[str]:
    """Return the C functions that call Python functions, themselves or through others in C."""
    callers: dict[str, set[str]] = defaultdict(set)
    for caller, called in graph.calls:
        if not is_python(caller):
            callers[called].add(caller)
    found: set[str] = set()
    waiting = [name for name in callers if is_python(name)]
    while waiting:
        new = callers[waiting.pop()] - found
        found |= new
        waiting += new
    return found
