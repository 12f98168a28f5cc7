"""Fold functions that cost next to nothing into one line for each of their modules.

A scheduler runs a thousand functions, and most of them only now and then. A record names those
which are at least `KEPT` of the whole by any metric, and the sum of the others, `module:<others>`.
Those of another owner than most of their module have a line `module:<others-owner>` beside it, so
that a record has the exact sum of each owner, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from pytest_schedprof.analysis.owners import others_of, owner_of_counted, owner_of_others
from pytest_schedprof.model.modules import BODY, OTHERS, is_work
from pytest_schedprof.model.profile import Function

KEPT = 0.0005
"""Part of the whole from which a function has a line of its own."""


def line_of(function: Function) -> Function:
    """Return the line of the other functions of a function's module.

    Imported modules have one line for each package: there are hundreds.
    """
    module, _, name = function.partition(":")
    if name == BODY:
        return f"{module.partition('.')[0]}:{BODY}"
    line, owner = f"{module}:{OTHERS}", owner_of_counted(function)
    return line if owner_of_counted(line) == owner else f"{module}:{others_of(owner)}"


def is_line(function: Function) -> bool:
    """Whether this is the line of a module's other functions."""
    return owner_of_others(function) is not None


def folded(
    functions: Mapping[Function, Mapping[str, float]], named: Collection[Function] = ()
) -> dict[Function, list[Function]]:
    """Return the lines of a record, each with the functions in it.

    Args:
        functions: all functions and their costs.
        named: functions that have a line of their own, however little they cost.
    """
    least = {metric: KEPT * total for metric, total in totals(functions).items()}
    lines: dict[Function, list[Function]] = defaultdict(list)
    for function, costs in functions.items():
        is_kept = any(amount >= least[metric] for metric, amount in costs.items() if amount)
        lines[function if is_kept or function in named else line_of(function)].append(function)
    return dict(lines)


def totals(functions: Mapping[Function, Mapping[str, float]]) -> dict[str, float]:
    """Return the sum of each metric over the functions that work on tasks."""
    sums: dict[str, float] = defaultdict(float)
    for function, costs in functions.items():
        for metric, amount in costs.items():
            sums[metric] += amount * is_work(function)
    return sums
