"""Give two records the same lines: what one of them folded into a line of others may be named in
the other one, because it cost a little more there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from math import fsum

from pytest_schedprof.analysis.folding import KEPT, is_line, line_of
from pytest_schedprof.comparison.contrast import Figure
from pytest_schedprof.model.modules import is_work
from pytest_schedprof.model.profile import Function

CLEAR = 2.0
"""How many times the least cost of a named function, so that a rise from any cost below that is
at least a doubling: the function is compared by its name then."""

Lines = Mapping[Function, Figure]


def aligned(
    before: Lines, after: Lines, folded: tuple[Lines | None, Lines | None] = (None, None)
) -> tuple[Lines, Lines]:
    """Return the figures of both sides by the same names.

    A function that only one side names is taken out of the other one's others, or is put among
    those of its own side if it is not known what the other one folded. A side that has no line of
    others named all its functions: those it lacks were not called.

    Args:
        before: functions and lines of one side.
        after: those of the other.
        folded: the functions in the lines of both sides; None if they are not known.
    """
    olds, news = folded
    return _fitted(before, after, olds, news), _fitted(after, before, news, olds)


def _fitted(side: Lines, other: Lines, folded: Lines | None, of_other: Lines | None) -> Lines:
    alike = _folded_alike(side, other) if of_other is None else side
    return alike if folded is None else _named_alike(alike, other, folded)


def _named_alike(side: Lines, other: Lines, folded: Lines) -> Lines:
    """Name what the other side names."""
    named = {name: folded[name] for name in other if name not in side and name in folded}
    left: dict[Function, list[float]] = {line_of(name): [] for name in named}
    for name, figure in folded.items():
        if name not in named and (line := line_of(name)) in left:
            left[line].append(figure.value)
    return {**side, **named, **{line: _part(side[line], fsum(left[line])) for line in left}}


def _part(line: Figure, value: float) -> Figure:
    """Return what is left of a line, as certain as it was."""
    return replace(line, value=value, error=line.error * value / line.value if line.value else 0.0)


def _folded_alike(side: Lines, other: Lines) -> Lines:
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
