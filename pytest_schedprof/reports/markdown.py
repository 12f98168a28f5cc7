"""Parts of Markdown as GitHub and GitLab read it: names that stay text, and sections that fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_STRUCTURE = re.compile(r"[`|\\]|[^ -~\xa1-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What a span of code cannot hold, or not in a table."""

_SPECIAL = re.compile(r"[!-/:-@\[-`{-~]")
_MARKUP = re.compile(r"[\\`*_{}\[\]()<>#|~!]")


def code(text: str) -> str:
    """A name, also in a table, whatever characters it is made of."""
    if text and not _STRUCTURE.search(text):
        return f"`{text}`"
    # In an entity no character means anything, and a pipe ends no cell.
    safe = _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", _printable(text))
    return f"<code>{safe}</code>"


def plain(text: str) -> str:
    """A sentence that may hold names; `@comm` in it must not call a user of that name."""
    escaped = _MARKUP.sub(lambda found: f"\\{found[0]}", _printable(text.replace("&", "&amp;")))
    return escaped.replace("\\<", "&lt;").replace("\\>", "&gt;").replace("@", "@<!-- -->")


def _printable(text: str) -> str:
    """Neither a line's end nor half a character, which cannot be written."""
    return re.sub(r"[^ -~\xa1-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a summary, from which items may be left out."""

    head: str
    items: Sequence[str]
    noun: str
    """What the items are, in the plural."""
    tail: str = ""


def fitted(sections: Sequence[Section], room: int, where: str) -> str:
    """As much of them as there is room for, in order; what is left out is counted.

    Args:
        sections: the most important first, and each with its most important item first.
        room: in bytes.
        where: what holds all of it.
    """
    written = [section for section in sections if section.items]
    notes = [_note(len(each.items), each, where) for each in written]
    room -= sum(map(_size, notes))  # so that whatever is left out can be told
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
    return f"\n{left} {section.noun} are left out here, for want of room: see {where}.\n"


def _size(text: str) -> int:
    """With the end of its line."""
    return len(text.encode("utf-8", "replace")) + 1
