"""What changed, for programs and for pull requests: JSON and Markdown."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pytest_schedprof.model.comparison import Change, Comparison, Outcome, Report
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.reports.changes import HEADS, comparison_lines, row, test_lines
from pytest_schedprof.reports.markdown import code, plain

SIGNS = {Verdict.PASS: "✅", Verdict.FAIL: "❌", Verdict.INCONCLUSIVE: "❔"}

TOLD = (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.SHIFTED)

MOST_ROWS = 50
"""Of one test: a comment that is longer nobody reads, and some places cut it."""


def as_json(report: Report) -> str:
    """Everything, with the verdict."""
    content = {"verdict": report.verdict, **msgspec.to_builtins(report)}
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode()


def as_markdown(report: Report) -> str:
    """A heading with the verdict, a table for each test in which something changed."""
    return "\n".join(_markdown(report))


def _markdown(report: Report) -> Iterator[str]:
    (count,) = comparison_lines(code(report.before), report.comparisons, -1)
    yield f"### {SIGNS[report.verdict]} Scheduler performance: {count.text}"
    for comparison in report.comparisons:
        yield from comparison_markdown(comparison)
    yield from (f"- {plain(line.text.strip())}" for line in test_lines(report))


def comparison_markdown(comparison: Comparison) -> Iterator[str]:
    """A table of what changed in one test, if anything did."""
    changes = [each for each in comparison.changes if each.outcome in TOLD]
    undecided = len(comparison.of(Outcome.UNDECIDED))
    if not (changes or undecided or comparison.reasons):
        return
    yield f"\n**{SIGNS[comparison.verdict]} {code(comparison.test_id)}** ({comparison.backend})\n"
    yield from (f"- undecided: {plain(reason)}" for reason in comparison.reasons)
    if changes:
        yield ""  # else the table would be a part of the list
        yield "| " + " | ".join(head or "outcome" for head in HEADS) + " |"
        yield "|---|---|--:|--:|--:|--:|---|---|"
        yield from map(_row, changes[:MOST_ROWS])
    if len(changes) > MOST_ROWS:
        yield f"\nand {len(changes) - MOST_ROWS} more changes"
    if undecided:
        yield f"\n{undecided} figures are undecided."


def _row(change: Change) -> str:
    *cells, function = row(change)
    note = f" ({plain(change.note)})" if change.note else ""
    return "| " + " | ".join([*map(plain, cells), f"{code(function)}{note}"]) + " |"
