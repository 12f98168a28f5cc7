"""Lines of the terminal with their markup, and series as bars."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import NewType

from msgspec import Struct, field
from msgspec.structs import force_setattr

from pytest_schedprof.errors import printable
from pytest_schedprof.model.limit import Verdict

VERDICT_MARKUP: Mapping[Verdict, dict[str, bool]] = {
    Verdict.PASS: {"green": True},
    Verdict.FAIL: {"red": True},
    Verdict.INCONCLUSIVE: {"yellow": True},
}

BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "_.-~=+*#"
"""Bars for terminals that cannot show the others."""

WIDEST = 40
"""Most columns of a series; of a longer one each bar is the mean of several figures."""


class Line(Struct, frozen=True):
    """One line of the terminal, and no more than one whatever its text; markup has pytest's
    names."""

    text: str
    markup: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        force_setattr(self, "text", printable(self.text, keep=""))


SHOWN = 20
"""Lines of one kind that a summary shows."""


def capped(lines: Sequence[Line], verbosity: int) -> list[Line]:
    """Return the first lines and how many more there are; all of them under -v."""
    if verbosity > 0 or len(lines) <= SHOWN:
        return list(lines)
    more = Line(f"  and {len(lines) - SHOWN} more: -v shows all")
    return [*lines[:SHOWN], more]


def sparkline(values: Sequence[float], bars: str) -> str:
    """Return a series as bars, of these characters, the lowest first."""
    if len(values) > WIDEST:
        borders = [number * len(values) // WIDEST for number in range(WIDEST + 1)]
        values = [fmean(values[a:b]) for a, b in pairwise(borders)]
    low, high = min(values), max(values)
    if low == high:
        return bars[len(bars) // 2] * len(values)
    most = len(bars) - 1
    return "".join(bars[round((value - low) / (high - low) * most)] for value in values)


def bars_for(encoding: str | None) -> str:
    """Return the bars that a terminal of this encoding can show."""
    try:
        BARS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN_BARS
    return BARS


SIGNS = {Verdict.PASS: "✅", Verdict.FAIL: "❌", Verdict.INCONCLUSIVE: "❔"}

Escaped = NewType("Escaped", str)
"""Markdown in which nothing that a record holds is read as markup."""

_STRUCTURE = re.compile(r"[`|\\]")
"""Characters that a code span, or one in a table, cannot hold."""

_SPECIAL = re.compile(r"[!-/:-@\[-`{-~]")
_LIVE = re.compile(r"@|:(?=//)|www(?=\.)", re.IGNORECASE)
"""Matches what GitHub makes a link of without any markup."""
_MARKUP = re.compile(r"[\\`*_{}\[\]()<>#|~!]")


def code(text: str) -> Escaped:
    """Return a name as code that is safe in a table, whatever its characters."""
    if text.strip() and text.isprintable() and not _STRUCTURE.search(text):
        return Escaped(f"`{text}`")
    # An entity is never read as markup, and a pipe in it does not end a cell.
    safe = _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", _printable(text))
    return Escaped(f"<code>{safe}</code>")


def plain(text: str) -> Escaped:
    """Escape a sentence that may hold names, of which none calls a user, as `@comm`, or links."""
    escaped = _MARKUP.sub(lambda match: f"\\{match[0]}", _printable(text.replace("&", "&amp;")))
    escaped = escaped.replace("\\<", "&lt;").replace("\\>", "&gt;")
    return Escaped(_LIVE.sub(r"\g<0><!-- -->", escaped))


def lines(texts: Iterable[Escaped]) -> Escaped:
    """Return texts as lines of one cell of a table."""
    return Escaped("<br>".join(texts))


def row(cells: Iterable[Escaped]) -> str:
    return f"| {' | '.join(cells)} |"


def _printable(text: str) -> str:
    """Replace ends of lines, control characters, and surrogates, which cannot be encoded."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


class Section(Struct, frozen=True):
    """A part of a summary, whose last items may be left out."""

    head: str
    items: Sequence[str]
    noun: str
    """Name of the items, in the plural."""
    tail: str = ""


def fitted(sections: Sequence[Section], room: int, place: str) -> str:
    """Return as much of the sections as fits, in order, and count what is left out.

    Args:
        sections: the most important first, and each with its most important item first.
        room: in bytes.
        place: the place that holds everything.
    """
    written = [section for section in sections if section.items]
    notes = [_note(len(section.items), section, place) for section in written]
    room -= sum(map(_size, notes))  # reserved, so that a note fits whatever is left out
    lines: list[str] = []
    for section, note in zip(written, notes, strict=True):
        fitting = list(_fitting(section, room, place))
        lines += fitting
        room -= sum(map(_size, fitting)) - _size(note)
    return "".join(f"{line}\n" for line in lines)


def _fitting(section: Section, room: int, place: str) -> Iterator[str]:
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
        yield _note(left, section, place)
    if kept and section.tail:
        yield section.tail


def _note(left: int, section: Section, place: str) -> str:
    return f"\n{left} {section.noun} left out for lack of space: see {place}.\n"


def _size(text: str) -> int:
    """Return the bytes of a line, with its end."""
    return len(text.encode("utf-8", "replace")) + 1
