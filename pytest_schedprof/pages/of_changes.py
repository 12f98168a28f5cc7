"""Comparisons with a baseline or another side, as a page shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pytest_schedprof.comparison.words import amount, difference, interval
from pytest_schedprof.model.comparison import Change, Comparison, Outcome
from pytest_schedprof.pages.amounts import name_of
from pytest_schedprof.pages.views import ChangeRow, ComparisonView

MOST = 60
"""Changes of one test: a table that is longer nobody reads."""

NEWS = (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.SHIFTED)


def comparison_views(comparisons: Iterable[Comparison]) -> tuple[ComparisonView, ...]:
    """A table for each backend."""
    return tuple(_view(each) for each in comparisons)


def _view(found: Comparison) -> ComparisonView:
    mode = f" ({found.mode})" if found.mode else ""
    rows = tuple(change_row(each) for each in _shown(found.changes))
    return ComparisonView(
        found.backend + mode, found.verdict.value, _count(found), found.reasons, rows
    )


def _shown(changes: Sequence[Change]) -> list[Change]:
    """News, and what the whole costs: its bounds say how much is undecided."""
    return [each for each in changes if each.outcome in NEWS or each.metric == "cpu"][:MOST]


def _count(found: Comparison) -> str:
    counts = Counter(each.outcome.value for each in found.changes)
    words = [f"{counts[each.value]} {each.value}" for each in Outcome if counts[each.value]]
    return ", ".join([*words, f"{found.same} the same"])


def change_row(change: Change) -> ChangeRow:
    """One figure."""
    return ChangeRow(
        change.outcome.value,
        change.metric,
        amount(change, change.before),
        amount(change, change.after),
        difference(change),
        interval(change),
        change.owner,
        name_of(change.subject),
        change.note,
    )


def gravest(comparisons: Iterable[Comparison], most: int) -> list[tuple[str, ChangeRow]]:
    """Regressions of all tests, then what became cheaper."""
    found = [
        (each.test_id, change)
        for outcome in (Outcome.REGRESSED, Outcome.IMPROVED)
        for each in comparisons
        for change in each.of(outcome)
    ]
    return [(test_id, change_row(change)) for test_id, change in found[:most]]


def words_of(comparisons: Iterable[Comparison]) -> str:
    """How many of each outcome that is news."""
    counts = Counter(change.outcome for each in comparisons for change in each.changes)
    return ", ".join(_words(counts))


def _words(counts: Counter[Outcome]) -> Iterator[str]:
    for outcome in NEWS:
        if counts[outcome]:
            yield f"{counts[outcome]} {outcome.value}"
