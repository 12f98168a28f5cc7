"""Divide the change of a figure among functions: called more often, dearer, new or gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from pytest_schedprof.analysis.causes import causes, enclosing
from pytest_schedprof.analysis.owners import owner_of_counted
from pytest_schedprof.explaining.source_changes import source_change
from pytest_schedprof.model.explanation import Accounts, Caller, Cost, Explanation, Part, Role
from pytest_schedprof.model.profile import Function

NOTHING = Cost()

ALIKE = 0.25
"""Relative difference up to which a function that came is taken for one that went, if both have
the same name in other modules or classes; and if both are in one module and called alike."""

CALLED_ALIKE = 0.01

ROUNDING = 1e-9

MOST_CALLERS = 5


def explain(
    test_id: str, backend: str, metric: str, before: Accounts, after: Accounts
) -> Explanation:
    """Return the parts of a change; they sum to it, but for what is unnamed.

    Those of its causes come first, then the largest. If the cost fell, only code that differs is
    a cause.
    """
    parts = _with_moves(
        Part(function, owner_of_counted(function), *_costs(function, before, after))
        for function in sorted({*before.functions, *after.functions})
    )
    least = ROUNDING * max(abs(before.whole), abs(after.whole))
    told = [
        _with_reasons(part, before, after)
        for part in parts
        if abs(part.amount) > least or part.is_changed
    ]
    is_rise = after.whole > before.whole
    certain = (part for part in told if abs(part.amount) >= part.error)
    roles = {
        each.function: each.role
        for each in causes({metric: certain})
        if is_rise or each.role is Role.CHANGED
    }
    places = {name: place for place, name in enumerate(roles)}

    def order(part: Part) -> tuple[int, float, Function]:
        place = places.get(enclosing(part.function), len(places))
        return place, -abs(part.amount), part.function

    found = [replace(each, role=roles.get(enclosing(each.function))) for each in told]
    shown = sorted((each for each in found if each.role or abs(each.amount) > least), key=order)
    return Explanation(test_id, backend, metric, before.whole, after.whole, tuple(shown))


def _costs(function: Function, before: Accounts, after: Accounts) -> tuple[Cost, Cost]:
    return before.functions.get(function, NOTHING), after.functions.get(function, NOTHING)


def _with_moves(parts: Iterator[Part]) -> list[Part]:
    """Join a function that came with one that went, if it only got another name or place."""
    every = list(parts)
    gone = [part for part in every if part.is_gone and part.before.amount]
    joined: dict[Function, Part] = {}
    for part in sorted(every, key=lambda each: -each.after.amount):
        if not part.is_new or not part.after.amount:
            continue
        fitting = [old for old in gone if _is_same(old, part)]
        if fitting:
            old = min(fitting, key=lambda each: abs(each.before.amount - part.after.amount))
            gone.remove(old)
            joined[part.function] = replace(part, before=old.before, moved_from=old.function)
    left = {part.moved_from for part in joined.values()}
    return [joined.get(part.function, part) for part in every if part.function not in left]


def _is_same(old: Part, new: Part) -> bool:
    """Whether a function that went is one that came, by its costs and by its name."""
    larger = max(old.before.amount, new.after.amount)
    if abs(old.before.amount - new.after.amount) > ALIKE * larger:
        return False
    if _last(old.function) == _last(new.function):
        return True
    calls = (old.before.calls or 0.0, new.after.calls or 0.0)
    is_called_alike = abs(calls[0] - calls[1]) <= CALLED_ALIKE * max(calls)
    return bool(calls[0]) and is_called_alike and _module(old.function) == _module(new.function)


def _last(function: Function) -> str:
    name = function.rpartition(":")[2].rpartition(".")[2]
    return "" if name.startswith("<") else name


def _module(function: Function) -> str:
    return function.partition(":")[0]


def _with_reasons(part: Part, before: Accounts, after: Accounts) -> Part:
    """Add who calls the function more or less often, and how its source changed."""
    old = part.moved_from or part.function
    callers = _callers(before.callers.get(old, {}), after.callers.get(part.function, {}))
    one, other = before.sources.get(old), after.sources.get(part.function)
    source = None
    # If only one side's is known, the other one may be the same.
    if (one or part.is_new) and (other or part.is_gone) and (one or other):
        lines = (
            _per_call(before.lines.get(old), part.before),
            _per_call(after.lines.get(part.function), part.after),
        )
        source = source_change(one, other, *lines)
    return replace(part, callers=callers[:MOST_CALLERS], source=source)


def _callers(
    before: Mapping[Function, float], after: Mapping[Function, float]
) -> tuple[Caller, ...]:
    found = (
        Caller(name, before.get(name, 0.0), after.get(name, 0.0))
        for name in dict.fromkeys(chain(before, after))
    )
    differing = [each for each in found if abs(each.after - each.before) > ROUNDING]
    return tuple(
        sorted(differing, key=lambda each: (-abs(each.after - each.before), each.function))
    )


def _per_call(lines: Mapping[int, float] | None, cost: Cost) -> Mapping[int, float] | None:
    """Return how often instructions of each line ran in a call."""
    if not lines or not cost.calls:
        return None
    return {line: times / cost.calls for line, times in lines.items()}
