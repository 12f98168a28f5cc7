"""What changed, for the terminal: a count of each outcome, and a table for each test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_schedprof.comparison.words import amount, difference, interval
from pytest_schedprof.model.comparison import Change, Comparison, Outcome, Report
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.reports.lines import Line

HEADS = ("", "metric", "before", "after", "change", "95% bounds", "owner", "function")

MARKUP = {
    Outcome.REGRESSED: {"red": True},
    Outcome.IMPROVED: {"green": True},
    Outcome.SHIFTED: {"cyan": True},
    Outcome.UNDECIDED: {"yellow": True},
}

_VERDICT_MARKUP = {
    Verdict.PASS: {"green": True},
    Verdict.FAIL: {"red": True},
    Verdict.INCONCLUSIVE: {"yellow": True},
}


def report_lines(report: Report, verbosity: int = 0) -> Iterator[Line]:
    """All of `schedprof compare`."""
    name = f"{report.before} and {report.after}"
    yield from comparison_lines(name, report.comparisons, verbosity)
    yield from test_lines(report)


def test_lines(report: Report) -> Iterator[Line]:
    """Tests that only one side has."""
    for old, new in report.renamed:
        yield Line(f"  renamed: {old} is now {new}")
    for what, tests in (
        ("new", report.new),
        ("vanished", report.vanished),
        ("failed, and not compared", report.unusable),
    ):
        yield from (Line(f"  {what}: {test}") for test in tests)


def comparison_lines(
    name: str, comparisons: Sequence[Comparison], verbosity: int
) -> Iterator[Line]:
    """One line for all, and what changed in each test."""
    worst = Verdict.worst([each.verdict for each in comparisons])
    yield Line(f"compared with {name}: {_count(comparisons)}", _VERDICT_MARKUP[worst])
    if verbosity >= 0:
        for each in comparisons:
            yield from _lines(each, verbosity)


def _count(comparisons: Sequence[Comparison]) -> str:
    counts = Counter(change.outcome for each in comparisons for change in each.changes)
    same = sum(each.same for each in comparisons)
    words = [f"{counts[each]} {each.value}" for each in MARKUP if counts[each]]
    tests = len({each.test_id for each in comparisons})
    return f"{', '.join([*words, f'{same} the same'])} in {tests} tests"


def _lines(comparison: Comparison, verbosity: int) -> Iterator[Line]:
    if not comparison.changes and not comparison.reasons:
        return
    mode = f" ({comparison.mode})" if comparison.mode else ""
    yield Line(f"{comparison.test_id}  {comparison.backend}{mode}", {"bold": True})
    yield from (Line(f"  undecided: {text}", {"yellow": True}) for text in comparison.reasons)
    is_all = verbosity > 0
    yield from _table([each for each in comparison.changes if is_all or _is_news(each)])
    hidden = Counter(each.note for each in comparison.changes if not (is_all or _is_news(each)))
    for note, count in hidden.items():
        yield Line(f"  {count} undecided: {note}", {"yellow": True})


def _is_news(change: Change) -> bool:
    """What the whole costs is news also where it is undecided: its bounds say how much is."""
    return change.outcome is not Outcome.UNDECIDED or change.metric == "cpu"


def _table(changes: Sequence[Change]) -> Iterator[Line]:
    if not changes:
        return
    rows = [row(change) for change in changes]
    widths = [max(len(each[i]) for each in (HEADS, *rows)) for i in range(len(HEADS))]
    yield Line(_aligned(HEADS, widths), {"light": True})
    notes = [change.note for change in changes]
    for change, cells, following in zip(changes, rows, [*notes[1:], ""], strict=True):
        yield Line(_aligned(cells, widths), MARKUP[change.outcome])
        if change.note and change.note != following:  # told once, below all that it is true of
            yield Line(f"      {change.note}", {"light": True})


def row(change: Change) -> tuple[str, ...]:
    """The cells of one change, as `HEADS` names them."""
    return (
        change.outcome.value,
        change.metric,
        amount(change, change.before),
        amount(change, change.after),
        difference(change),
        interval(change),
        change.owner,
        change.subject or "the scheduler",
    )


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Words to the left, numbers to the right."""
    words = [
        cell.rjust(width) if 2 <= i <= 5 else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"  {'  '.join(words)}".rstrip()
