"""Markdown as GitHub and GitLab read it: escaped names, and sections cut to a size.

Every text of a record becomes `Escaped` by `code` or `plain` before it is a part of Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NewType

from pytest_schedprof.model.verdict import Verdict

SIGNS = {Verdict.PASS: "✅", Verdict.FAIL: "❌", Verdict.INCONCLUSIVE: "❔"}

Escaped = NewType("Escaped", str)
"""Markdown in which nothing that a record holds is read as markup."""

_STRUCTURE = re.compile(r"[`|\\]")
"""Characters that a code span, or one in a table, cannot hold."""

_SPECIAL = re.compile(r"[!-/:-@\[-`{-~]")
_MARKUP = re.compile(r"[\\`*_{}\[\]()<>#|~!]")


def code(text: str) -> Escaped:
    """Return a name as code that is safe in a table, whatever its characters."""
    if text.strip() and text.isprintable() and not _STRUCTURE.search(text):
        return Escaped(f"`{text}`")
    # An entity is never read as markup, and a pipe in it does not end a cell.
    safe = _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", _printable(text))
    return Escaped(f"<code>{safe}</code>")


def plain(text: str) -> Escaped:
    """Escape a sentence that may hold names; `@comm` in it must not notify a user of that name."""
    escaped = _MARKUP.sub(lambda found: f"\\{found[0]}", _printable(text.replace("&", "&amp;")))
    escaped = escaped.replace("\\<", "&lt;").replace("\\>", "&gt;").replace("@", "@<!-- -->")
    return Escaped(escaped)


def lines(texts: Iterable[Escaped]) -> Escaped:
    """Return texts as lines of one cell of a table."""
    return Escaped("<br>".join(texts))


def row(cells: Iterable[Escaped]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def _printable(text: str) -> str:
    """Replace ends of lines, control characters, and surrogates, which cannot be encoded."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a summary, whose last items may be left out."""

    head: str
    items: Sequence[str]
    noun: str
    """Name of the items, in the plural."""
    tail: str = ""


def fitted(sections: Sequence[Section], room: int, where: str) -> str:
    """Return as much of the sections as fits, in order, and count what is left out.

    Args:
        sections: the most important first, and each with its most important item first.
        room: in bytes.
        where: the place that holds everything.
    """
    written = [section for section in sections if section.items]
    notes = [_note(len(each.items), each, where) for each in written]
    room -= sum(map(_size, notes))  # reserved, so that a note fits whatever is left out
    lines: list[str] = []
    for section, note in zip(written, notes, strict=True):
        found = list(_fitting(section, room, where))
        lines += found
        room -= sum(map(_size, found)) - _size(note)
    return "".join(f"{line}\n" for line in lines)


def _fitting(section: Section, room: int, where: str) -> Iterator[str]:
    room -= _size(section.head) + _size(section.tail)
    kept = 0
    for item in section.items:
        room -= _size(item)
        if room < 0:
            break
        kept += 1
    left = len(section.items) - kept
    if kept:
        yield section.head
        yield from section.items[:kept]
    if left:
        yield _note(left, section, where)
    if kept and section.tail:
        yield section.tail


def _note(left: int, section: Section, where: str) -> str:
    return f"\n{left} {section.noun} left out for lack of space: see {where}.\n"


def _size(text: str) -> int:
    """Return the bytes of a line, with its end."""
    return len(text.encode("utf-8", "replace")) + 1
