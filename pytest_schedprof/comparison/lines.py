"""Give two records the same lines: what one of them folded into a line of others may be named in
the other one, because it cost a little more there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import fsum

from pytest_schedprof.analysis.folding import KEPT, is_line, line_of
from pytest_schedprof.comparison.contrast import Figure
from pytest_schedprof.model.modules import is_work
from pytest_schedprof.model.profile import Function

CLEAR = 2.0
"""How many times the least cost of a named function, so that a rise from any cost below that is
at least a doubling: the function is compared by its name then."""

Lines = Mapping[Function, Figure]


def aligned(before: Lines, after: Lines) -> tuple[Lines, Lines]:
    """Return the figures of both sides, with functions that only one side names among its others.

    A side that has no line of others named all its functions: those it lacks were not called.
    """
    return _fitted(before, after), _fitted(after, before)


def _fitted(side: Lines, other: Lines) -> Lines:
    """Fold what the other side may have folded, unless it surely cost less there."""
    if not any(map(is_line, other)):
        return side
    least = CLEAR * KEPT * fsum(other[name].value for name in other if is_work(name))
    lines: dict[Function, list[Figure]] = defaultdict(list)
    for function, figure in side.items():
        is_named = function in other or is_line(function) or figure.value >= least
        lines[function if is_named else line_of(function)].append(figure)
    return {name: _sum(figures) for name, figures in lines.items()}


def _sum(figures: list[Figure]) -> Figure:
    """Add up figures; their errors too, since what moves one of them may move all."""
    if len(figures) == 1:
        return figures[0]
    return Figure(
        fsum(each.value for each in figures),
        fsum(each.error for each in figures),
        min(each.freedom for each in figures),
    )
