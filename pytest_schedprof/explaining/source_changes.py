"""Compare two sources of a function, and find the lines that explain what it costs more."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from textwrap import dedent

from pytest_schedprof.model.explanation import Place, Source, SourceChange, SourceLine

MOST = 3
"""Places in a function that are told."""

MATTERS = 0.02
"""Part of the largest rise of a line from which on another line is told."""

AROUND = 3
"""Lines that are shown around one that differs."""

Counts = Mapping[int, float] | None
"""Instructions that ran per call, by line of the file."""

NO_SOURCE = Source("", 1, "")


def source_change(
    before: Source | None, after: Source | None, counts_before: Counts, counts_after: Counts
) -> SourceChange:
    """Compare the sources; where lines were counted, those tell which of them cost more."""
    old, new = before or NO_SOURCE, after or NO_SOURCE
    lines = list(_aligned(old, new))
    if counts_before is not None and counts_after is not None:
        lines = [_counted(each, counts_before, counts_after) for each in lines]
        told = _dearer(lines)
    else:
        told = _with_code(new, (each for each in lines if each.before is None)) if before else []
    places = sorted(_places(told), key=lambda each: (-(each.more or 0.0), each.first - each.last))
    marked = {id(each) for each in told}
    differs = [id(each) in marked or None in (each.before, each.after) for each in lines]
    return SourceChange(
        new.file or old.file,
        old.text == new.text,
        tuple(_shown(lines, differs)),
        tuple(places[:MOST]),
    )


def _aligned(old: Source, new: Source) -> Iterator[SourceLine]:
    """Yield the lines of both sources, each line that they share once."""
    one, other = old.text.splitlines(), new.text.splitlines()
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    for what, start, end, first, last in matcher.get_opcodes():
        if what == "equal":
            for at in range(end - start):
                yield SourceLine(old.line + start + at, new.line + first + at, other[first + at])
            continue
        for at in range(start, end):
            yield SourceLine(old.line + at, None, one[at])
        for at in range(first, last):
            yield SourceLine(None, new.line + at, other[at])


def _counted(
    line: SourceLine, before: Mapping[int, float], after: Mapping[int, float]
) -> SourceLine:
    old = before.get(line.before, 0.0) if line.before is not None else 0.0
    new = after.get(line.after, 0.0) if line.after is not None else 0.0
    return replace(line, more=new - old)


def _dearer(lines: Sequence[SourceLine]) -> list[SourceLine]:
    """Return the lines of which clearly more instructions ran per call than before."""
    most = max((each.more or 0.0 for each in lines), default=0.0)
    least = MATTERS * most
    return [each for each in lines if each.after is not None and (each.more or 0.0) > least]


def _with_code(source: Source, lines: Iterable[SourceLine]) -> list[SourceLine]:
    """Leave out lines without code: they cost nothing."""
    numbers = code_lines(source)
    return [each for each in lines if each.after in numbers]


def code_lines(source: Source) -> set[int]:
    """Return the numbers of the lines in which a statement or an expression begins or ends."""
    try:
        tree = ast.parse(dedent(source.text))
    except SyntaxError:  # the text may be cut off: then no line is left out
        return set(range(source.line, source.line + len(source.text.splitlines())))
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr)) and not _is_docstring(node):
            found.update((node.lineno, node.end_lineno or node.lineno))
    return {source.line - 1 + line for line in found}


def _is_docstring(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else node
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _places(lines: Iterable[SourceLine]) -> Iterator[Place]:
    """Yield a place for all lines that follow each other and are alike."""
    place: Place | None = None
    for line in lines:
        number, is_new = line.after or 0, line.before is None
        if place and number == place.last + 1 and place.is_new is is_new:
            more = None if line.more is None else (place.more or 0.0) + line.more
            place = replace(place, last=number, more=more)
            continue
        if place:
            yield place
        place = Place(number, number, is_new, line.more)
    if place:
        yield place


def _shown(lines: Sequence[SourceLine], differs: Sequence[bool]) -> Iterator[SourceLine]:
    """Yield the lines that differ, and those around them."""
    for at, line in enumerate(lines):
        if any(differs[max(0, at - AROUND) : at + AROUND + 1]):
            yield line
