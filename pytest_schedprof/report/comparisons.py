"""Comparisons and explanations as terminal lines, and as Markdown for pull requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_schedprof.judge.series import label_of
from pytest_schedprof.model.comparison import Change, Comparison, Difference, Outcome, Report
from pytest_schedprof.model.explanation import Explanation, Part, SourceChange
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.report.changes import (
    CHANGE_HEADS,
    NEWS,
    change_cells,
    comparison_count,
    condition_words,
    conditions_of,
    doubts,
    gravity,
    is_told,
    top_and_rest,
    unmatched_tests,
)
from pytest_schedprof.report.markup import SIGNS, VERDICT_MARKUP, Escaped, Line, code, plain, row
from pytest_schedprof.report.words import (
    counted,
    details_of,
    explanation_headline,
    headline_of,
    others,
    sentence,
    sentences,
    source_lines,
    source_of,
    top_parts,
    with_more,
)

HEADS = ("", *CHANGE_HEADS[1:])
NUMBERS = range(2, 6)
"""Columns that are aligned to the right."""

OUTCOME_MARKUP = {
    Outcome.REGRESSED: {"red": True},
    Outcome.IMPROVED: {"green": True},
    Outcome.SHIFTED: {"cyan": True},
    Outcome.ACCEPTED: {"cyan": True},
    Outcome.UNDECIDED: {"yellow": True},
}

TESTS_IN_BRIEF, ROWS_IN_BRIEF = 5, 10
"""Comparisons, and changes of each, at the end of a session."""

ROWS_IN_MARKDOWN = 50
"""Rows of one test: nobody reads a longer comment, and some services cut it."""


def report_lines(report: Report, verbosity: int = 0) -> Iterator[Line]:
    """Return all lines of `schedprof compare`."""
    name = f"{report.before} and {report.after}"
    yield from comparison_lines(name, report.comparisons, verbosity)
    yield from (Line(f"  {text}") for text in unmatched_tests(report))


def comparison_lines(
    name: str, comparisons: Sequence[Comparison], verbosity: int, *, is_brief: bool = False
) -> Iterator[Line]:
    """Return one line for all tests, and what changed in each of them.

    Args:
        name: of what they were compared with.
        verbosity: with -q there are only the lines about all tests.
        is_brief: whether only the gravest comparisons and changes are shown, unless with -v.
    """
    worst = Verdict.worst([comparison.verdict for comparison in comparisons])
    yield Line(f"compared with {name}: {comparison_count(comparisons)}", VERDICT_MARKUP[worst])
    yield from (Line(f"  {text}") for text in condition_words(comparisons))
    if verbosity < 0:
        return
    news = [
        comparison
        for comparison in comparisons
        if comparison.changes or comparison.reasons or comparison.parting
    ]
    tests, rows = (TESTS_IN_BRIEF, ROWS_IN_BRIEF) if is_brief and not verbosity else (None, None)
    shown, left = top_and_rest(news, tests, gravity)
    for comparison in shown:
        yield from _lines(comparison, rows, is_all=verbosity > 0)
    if left:
        yield Line(f"{counted(len(left), 'more comparison')}: -v shows all")


def _lines(comparison: Comparison, most: int | None, *, is_all: bool) -> Iterator[Line]:
    yield Line(f"{comparison.test_id}  {label_of(comparison)}", {"bold": True})
    if parting := comparison.parting:
        colour = "green" if parting.what is Difference.NOTHING else "cyan"
        yield Line(f"  {headline_of(parting)}", {colour: True})
        yield from (Line(f"    {text}") for text in details_of(parting))
    yield from (Line(f"  {text}", {"light": True}) for text in conditions_of(comparison))
    yield from (Line(f"  undecided: {text}", {"yellow": True}) for text in comparison.reasons)
    shown = [change for change in comparison.changes if is_all or is_told(change)]
    yield from _table(shown[:most])
    if left := len(shown[most:]) if most else 0:
        yield Line(f"  and {counted(left, 'more change')}: -v shows all")
    for words in [] if is_all else doubts(comparison):
        yield Line(f"  {words}", {"yellow": True})


def _table(changes: Sequence[Change]) -> Iterator[Line]:
    if not changes:
        return
    rows = [[str(cell) for cell in change_cells(change)] for change in changes]
    widths = [max(len(cells[i]) for cells in (HEADS, *rows)) for i in range(len(HEADS))]
    yield Line(_aligned(HEADS, widths), {"light": True})
    notes = [change.note for change in changes]
    for change, cells, following in zip(changes, rows, [*notes[1:], ""], strict=True):
        yield Line(_aligned(cells, widths), OUTCOME_MARKUP[change.outcome])
        if change.note and change.note != following:  # once below all rows that it belongs to
            yield Line(f"      {change.note}", {"light": True})


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    words = [
        cell.rjust(width) if i in NUMBERS else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"  {'  '.join(words)}".rstrip()


def as_markdown(report: Report) -> str:
    """Return a heading with the verdict, and a table for each test in which something changed."""
    count, *settings = comparison_lines(code(report.before), report.comparisons, -1)
    lines = [f"### {SIGNS[report.verdict]} Scheduler performance: {count.text}"]
    lines += [f"- {plain(line.text.strip())}" for line in settings]
    for comparison in report.comparisons:
        lines += comparison_markdown(comparison)
    return "\n".join([*lines, *(f"- {plain(text)}" for text in unmatched_tests(report))])


def comparison_markdown(comparison: Comparison) -> Iterator[str]:
    """Return a table of what changed in one test; nothing if nothing changed."""
    changes = [change for change in comparison.changes if change.outcome in NEWS]
    undecided = len(comparison.of(Outcome.UNDECIDED))
    parting = comparison.parting
    has_parted = parting is not None and parting.what is not Difference.NOTHING
    if not (changes or undecided or comparison.reasons or has_parted):
        return
    backend = plain(comparison.backend)
    yield f"\n**{SIGNS[comparison.verdict]} {code(comparison.test_id)}** ({backend})\n"
    yield from (f"- undecided: {plain(reason)}" for reason in comparison.reasons)
    if parting is not None:
        yield f"- {plain(headline_of(parting))}"
        yield from (f"- {plain(text)}" for text in details_of(parting))
    yield from (f"- {plain(text)}" for text in conditions_of(comparison))
    if changes:
        yield ""  # else the table would be a part of the list
        yield "| " + " | ".join(CHANGE_HEADS) + " |"
        yield "|---|---|--:|--:|--:|--:|---|---|"
        yield from map(_markdown_row, changes[:ROWS_IN_MARKDOWN])
    if len(changes) > ROWS_IN_MARKDOWN:
        yield f"\nand {counted(len(changes) - ROWS_IN_MARKDOWN, 'more change')}"
    if undecided:
        yield f"\nUndecided figures: {undecided}."


def _markdown_row(change: Change) -> str:
    *cells, function = map(str, change_cells(change))
    note = f" ({plain(change.note)})" if change.note else ""
    return row([*map(plain, cells), Escaped(f"{code(function)}{note}")])


EXPLAINED_IN_BRIEF = 3
"""Explanations at the end of a session, unless with -v."""

MOST_LINES = 60
"""Lines of a source that are printed."""


def explanation_lines(explanation: Explanation, *, with_source: bool = True) -> Iterator[Line]:
    """Return the sentences of an explanation, then the sources that changed."""
    yield Line(f"{explanation.test_id}  {explanation.backend}", {"bold": True})
    yield Line(f"  {explanation_headline(explanation)}")
    shown = top_parts(explanation)
    for part in shown:
        yield Line(
            f"  {sentence(explanation, part)}", {"red" if part.amount > 0 else "green": True}
        )
    if rest := others(explanation, shown):
        yield Line(f"  {rest}")
    yield from (Line(f"  {note}", {"yellow": True}) for note in explanation.notes)
    for part in shown if with_source else ():
        if source := source_of(part):
            yield from _source_lines(part, source)


def why_lines(explained: Sequence[Explanation], verbosity: int) -> Iterator[Line]:
    """Return the sentences at the end of a session."""
    yield Line("why (`schedprof explain` shows the lines of code too):")
    shown = explained[: None if verbosity else EXPLAINED_IN_BRIEF]
    for explanation in shown:
        yield from explanation_lines(explanation, with_source=False)
    if left := len(explained) - len(shown):
        yield Line(f"{counted(left, 'more explanation')}: -v shows all")


def _source_lines(part: Part, source: SourceChange) -> Iterator[Line]:
    yield Line("")
    yield Line(f"  {part.function}  {source.file}", {"bold": True})
    for line, follows in source_lines(source, MOST_LINES):
        if not follows:
            yield Line("        ...", {"light": True})
        sign, number, markup = " ", line.after, {}
        if line.after is None:
            sign, number, markup = "-", line.before, {"red": True}
        elif line.before is None:
            sign, markup = "+", {"green": True}
        yield Line(f"  {number:>6} {with_more(line.more):>8} {sign} {line.text.rstrip()}", markup)
    if len(source.lines) > MOST_LINES:
        yield Line(f"        ... {counted(len(source.lines) - MOST_LINES, 'more line')}")


def explanation_markdown(explanation: Explanation) -> str:
    """Return the sentences of an explanation for a pull request."""
    # Without the quotes of names, which would be escaped.
    lines = [f"- {plain(text.replace('`', ''))}" for text in sentences(explanation)]
    heading = plain(f"{explanation.backend}: {explanation_headline(explanation)}")
    return "\n".join([f"\n{code(explanation.test_id)}, {heading}\n", *lines])
