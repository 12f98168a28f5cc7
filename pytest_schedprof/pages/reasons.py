"""Why a figure regressed, as a page shows it: sentences, and sources side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pytest_schedprof.model.explanation import Explanation, Part, SourceChange, SourceLine
from pytest_schedprof.presentation.amounts import Name, name_of, with_more
from pytest_schedprof.presentation.explanation import headline, others, sentence, told

MOST_LINES = 120
"""Lines of a function that a page shows."""


class LineRow(NamedTuple):
    """A line of a source on both sides; numbers are empty where a side lacks it."""

    before: str
    after: str
    more: str
    """How many more of its instructions ran per call; empty if that is not known, or nothing."""
    text: str
    kind: str
    """`new`, `gone`, `dearer` or empty."""
    follows: bool
    """Whether it is the line right after the one above it."""


class SourceView(NamedTuple):
    """The source of one function."""

    name: Name
    file: str
    rows: tuple[LineRow, ...]
    left: int
    """Lines that are not shown."""


class ReasonView(NamedTuple):
    """Why one figure of a backend regressed."""

    test_id: str
    backend: str
    headline: str
    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    sources: tuple[SourceView, ...]


def reason_view(found: Explanation) -> ReasonView:
    """Return the view of an explanation."""
    shown = told(found)
    rest = others(found, len(shown))
    return ReasonView(
        found.test_id,
        found.backend,
        headline(found),
        (*(sentence(found, part) for part in shown), *([rest] if rest else [])),
        found.notes,
        tuple(_sources(shown)),
    )


def _sources(parts: list[Part]) -> Iterator[SourceView]:
    for part in parts:
        source = part.source
        if source and source.lines and (part.by_price > 0 or part.is_new):
            yield SourceView(
                name_of(part.function),
                source.file,
                tuple(_rows(source)),
                max(0, len(source.lines) - MOST_LINES),
            )


def _rows(source: SourceChange) -> Iterator[LineRow]:
    last: int | None = None
    for line in source.lines[:MOST_LINES]:
        number = line.after if line.after is not None else line.before
        assert number is not None
        follows = last is None or number <= last + 1
        last = number
        before, after = (str(each or "") for each in (line.before, line.after))
        yield LineRow(before, after, with_more(line.more), line.text.rstrip(), _kind(line), follows)


def _kind(line: SourceLine) -> str:
    if line.after is None:
        return "gone"
    if line.before is None:
        return "new"
    return "dearer" if with_more(line.more).startswith("+") else ""
