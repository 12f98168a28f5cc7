"""Explanations as lines of a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from pytest_schedprof.model.explanation import Explanation, Part, SourceChange, SourceLine
from pytest_schedprof.presentation.amounts import counted, with_more
from pytest_schedprof.presentation.explanation import headline, others, sentence, told
from pytest_schedprof.reports.lines import Line
from pytest_schedprof.reports.markdown import code, plain

EXPLAINED_IN_BRIEF = 3
"""Explanations at the end of a session, unless with -v."""

MOST_LINES = 60
"""Lines of a source that are printed."""


def explanation_lines(found: Explanation, *, with_source: bool = True) -> Iterator[Line]:
    """Return the sentences of an explanation, then the sources that changed."""
    yield Line(f"{found.test_id}  {found.backend}", {"bold": True})
    yield Line(f"  {headline(found)}")
    shown = told(found)
    for part in shown:
        yield Line(f"  {sentence(found, part)}", {"red" if part.amount > 0 else "green": True})
    if rest := others(found, len(shown)):
        yield Line(f"  {rest}")
    yield from (Line(f"  {note}", {"yellow": True}) for note in found.notes)
    for part in shown if with_source else ():
        if part.source and part.source.lines and (part.by_price > 0 or part.is_new):
            yield from _source_lines(part, part.source)


def why_lines(explained: Sequence[Explanation], verbosity: int) -> Iterator[Line]:
    """Return the sentences at the end of a session."""
    yield Line("why (`schedprof explain` shows the lines of code too):")
    shown = explained[: None if verbosity else EXPLAINED_IN_BRIEF]
    for each in shown:
        yield from explanation_lines(each, with_source=False)
    if left := len(explained) - len(shown):
        yield Line(f"{counted(left, 'more explanation')}: -v shows all")


def _source_lines(part: Part, source: SourceChange) -> Iterator[Line]:
    yield Line("")
    yield Line(f"  {part.function}  {source.file}", {"bold": True})
    last: int | None = None
    for line in source.lines[:MOST_LINES]:
        number = line.after if line.after is not None else line.before
        if last is not None and number is not None and number > last + 1:
            yield Line("        ...", {"light": True})
        last = number
        yield Line(source_line(line), _markup(line))
    if len(source.lines) > MOST_LINES:
        yield Line(f"        ... {len(source.lines) - MOST_LINES} lines more")


def source_line(line: SourceLine) -> str:
    """Return a line of a source: its number, whether it came or went, and what it costs more."""
    sign = "-" if line.after is None else "+" if line.before is None else " "
    number = line.after if line.after is not None else line.before
    return f"  {number:>6} {with_more(line.more):>8} {sign} {line.text.rstrip()}"


def _markup(line: SourceLine) -> dict[str, bool]:
    if line.after is None:
        return {"red": True}
    return {"green": True} if line.before is None else {}


def explanation_markdown(found: Explanation) -> str:
    """Return the sentences of an explanation for a pull request."""
    shown = told(found)
    rest = others(found, len(shown))
    lines = [f"- {plain(_unquoted(sentence(found, part)))}" for part in shown]
    lines += [f"- {plain(rest)}"] if rest else []
    head = f"\n{code(found.test_id)}, {plain(f'{found.backend}: {headline(found)}')}\n\n"
    return head + "\n".join(lines)


def _unquoted(text: str) -> str:
    """Return a sentence without the quotes of names, which would be escaped."""
    return text.replace("`", "")


def as_json(found: Sequence[Explanation]) -> str:
    """Return everything as JSON."""
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()
