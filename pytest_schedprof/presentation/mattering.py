"""The tests of a session that its summary shows: those with news, and the hottest of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pytest_schedprof.model.comparison import Outcome
from pytest_schedprof.model.result import WHOLE, Result
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.presentation.limits import GRAVEST_FIRST

HOTTEST = 10
"""Tests that a summary shows if none of them has news."""

WITH_NEWS = 20
"""Tests with news that a summary shows: those of a longer list have one cause."""


T = TypeVar("T")


def mattering(results: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    """Return the tests that failed, are undecided or changed, and the hottest up to ten in all.

    And the others.
    """
    news = sum(map(_has_news, results))
    return parted(results, max(HOTTEST, min(news, WITH_NEWS)), _rank)


def parted(
    items: Sequence[T], most: int | None, rank: Callable[[T], Any]
) -> tuple[list[T], list[T]]:
    """Return the items of the lowest ranks, and the others; both in their order."""
    ranked = sorted(range(len(items)), key=lambda number: rank(items[number]))
    chosen = set(ranked[:most])
    return (
        [each for number, each in enumerate(items) if number in chosen],
        [each for number, each in enumerate(items) if number not in chosen],
    )


def _rank(result: Result) -> tuple[bool, int, bool, float]:
    """Sort failures first, then doubts, then changes, and what is equal by the scheduler's CPU."""
    return (
        result.outcome in WHOLE,
        GRAVEST_FIRST.index(result.verdict),
        not is_changed(result),
        -scheduler_seconds(result),
    )


def _has_news(result: Result) -> bool:
    has_failed = result.outcome not in WHOLE or result.verdict is not Verdict.PASS
    return has_failed or is_changed(result)


def is_changed(result: Result) -> bool:
    """Whether a figure regressed, improved or shifted."""
    changes = (change for each in result.comparisons for change in each.changes)
    return any(change.outcome is not Outcome.UNDECIDED for change in changes)


def scheduler_seconds(result: Result) -> float:
    """Return the scheduler's CPU time in the test, by the backend that saw most of it."""
    return max((each.window.cpu_seconds for each in result.backends), default=0.0)
