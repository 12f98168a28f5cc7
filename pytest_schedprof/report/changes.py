"""Comparisons as rows, sentences and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from pytest_schedprof.judge.causes import enclosing
from pytest_schedprof.judge.series import LEAST_RUNS, LEAST_TIMED
from pytest_schedprof.model.comparison import (
    Change,
    Comparison,
    Origin,
    Outcome,
    Report,
    Thresholds,
)
from pytest_schedprof.model.explanation import Role
from pytest_schedprof.model.limit import GRAVEST_FIRST, Verdict
from pytest_schedprof.model.metric import CPU, METRICS, PERCENT, readable
from pytest_schedprof.model.result import WHOLE, Result
from pytest_schedprof.report.words import Name, counted, name_of, name_of_whole

NEWS = (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.SHIFTED, Outcome.ACCEPTED)
"""Outcomes of figures that changed."""

CAUSES_SHOWN = 3
"""Causes of one comparison that are told."""

ROLES = {
    Role.CHANGED: "its code differs",
    Role.NEW: "it did not run before",
    Role.DEARER: "its code is as before, and a call does more",
    Role.CALLED: "it is called more often",
}

SHOWN_OF_TEST = 60
"""Changes of one test that a page shows: nobody reads a longer table."""

CHANGE_HEADS = ("outcome", "metric", "before", "after", "change", "bounds", "owner", "function")


def change_cells(change: Change) -> tuple[str, str, str, str, str, str, str, Name]:
    """Return the text of each column for one figure."""
    return (
        change.outcome.value,
        change.metric,
        _amount(change, change.before),
        _amount(change, change.after),
        _difference(change),
        _interval(change),
        change.owner,
        name_of(change.subject, change.metric),
    )


def is_told(change: Change) -> bool:
    """Whether a summary shows the change.

    The CPU time of the whole is shown even if undecided, because its bounds say by how much.
    """
    return change.outcome is not Outcome.UNDECIDED or change.metric == CPU


def doubts(comparison: Comparison) -> Iterator[str]:
    """Yield how many of the changes that are not told are undecided, and why, for each reason."""
    counts = Counter(change.note for change in comparison.changes if not is_told(change))
    yield from (f"{count} undecided: {note}" for note, count in counts.items())


def changes_of_test(comparison: Comparison) -> list[Change]:
    """Return the changes that the page of a test shows."""
    return [change for change in comparison.changes if is_told(change)][:SHOWN_OF_TEST]


def count_words(comparison: Comparison) -> str:
    """Return how many figures of one test and backend have each outcome."""
    return ", ".join([*outcome_words([comparison]), f"{comparison.same} the same"])


def conditions_of(comparison: Comparison) -> Iterator[str]:
    """Yield what explains the figures of one test and backend, and what holds for all of them."""
    if comparison.causes:
        yield from cause_sentences(comparison)
    yield from dict.fromkeys(f"accepted: {figure.reason}" for figure in comparison.accepted)
    if comparison.tasks is not None:
        before, after = (f"{number:,.0f}" for number in comparison.tasks)
        made = f"the body made {before} tasks before, and {after} now"
        made = made if any(comparison.tasks) else "the body made no tasks"
        yield f"costs are per round: {made}; per task they could not be compared"
    if noise := noise_words(comparison.thresholds):
        yield noise


def gravest(comparisons: Iterable[Comparison], most: int) -> list[tuple[str, Change]]:
    """Return the regressions of all tests, then the improvements, each with the ID of its test.

    Of a comparison with causes: the regressions of these. Of one without: the gravest regression.
    """
    leading, improved = [], []
    for comparison in comparisons:
        regressed = comparison.of(Outcome.REGRESSED)
        names = {cause.function for cause in comparison.causes}
        of_causes = [change for change in regressed if enclosing(change.subject) in names]
        leading += [(comparison.test_id, change) for change in of_causes or regressed[:1]]
        improved += [(comparison.test_id, change) for change in comparison.of(Outcome.IMPROVED)]
    return [*leading, *improved][:most]


def gravity(comparison: Comparison) -> int:
    """Sort the comparisons with the most regressions first."""
    return -len(comparison.of(Outcome.REGRESSED))


def outcome_words(
    comparisons: Iterable[Comparison], outcomes: Iterable[Outcome] = Outcome
) -> list[str]:
    """Return how many changes have each outcome, without the outcomes that none has."""
    counts = Counter(change.outcome for comparison in comparisons for change in comparison.changes)
    return [f"{counts[outcome]} {outcome.value}" for outcome in outcomes if counts[outcome]]


def comparison_count(comparisons: Iterable[Comparison]) -> str:
    """Return how many figures have each outcome, and in how many tests."""
    comparisons = tuple(comparisons)
    if not comparisons:
        return "no test in common"
    same = f"{sum(comparison.same for comparison in comparisons)} the same"
    tests = counted(len({comparison.test_id for comparison in comparisons}), "test")
    return f"{', '.join([*outcome_words(comparisons), same])} in {tests}"


def unmatched_tests(report: Report) -> Iterator[str]:
    """Return a line for each test that was renamed, or that was not measured on both sides."""
    for old, new in report.renamed:
        yield f"renamed: {old} is now {new}"
    for title, tests in (
        ("not in the baseline", report.new),
        ("vanished", report.vanished),
        ("failed, and not compared", report.unusable),
    ):
        yield from (f"{title}: {test}" for test in tests)


def condition_words(comparisons: Iterable[Comparison]) -> Iterator[str]:
    """Yield the settings that are compared, and where thresholds come from.

    A setting that not all comparisons have is followed by their number.
    """
    comparisons = tuple(comparisons)
    counts = Counter(comparison.settings for comparison in comparisons)
    for settings, count in counts.items():
        if settings:
            words = ", ".join(
                f"{setting.name} ({setting.before} before, {setting.after} now)"
                for setting in settings
            )
            yield f"settings that differ{_some(count, comparisons)}: {words}"
    origins = Counter(threshold_words(comparison.thresholds) for comparison in comparisons)
    for words, count in origins.items():
        if words:
            yield f"{words}{_some(count, comparisons)}"


def _some(count: int, comparisons: Sequence[Comparison]) -> str:
    """Return for how many comparisons something holds; empty if it holds for all."""
    return f" in {count} of {len(comparisons)} comparisons" if count < len(comparisons) else ""


def threshold_words(thresholds: Thresholds | None) -> str:
    """Return where thresholds come from; empty for constants, unless a series is too short."""
    if thresholds is None:
        return ""
    if thresholds.origin is Origin.PAST:
        return f"thresholds from {thresholds.runs} earlier runs"
    if thresholds.runs is None:
        return ""
    runs = counted(thresholds.runs, "earlier run")
    return f"constant thresholds: {runs}, {LEAST_RUNS} tell how much figures vary"


def noise_words(thresholds: Thresholds | None) -> str:
    """Return how large a rise of the CPU time counts by the earlier runs; empty if unknown."""
    if thresholds is None or thresholds.cpu_rise is None:
        return ""
    word = "noisy" if thresholds.cpu_rise > LEAST_TIMED else "quiet"
    return f"{word}: CPU time counts from {thresholds.cpu_rise:+.1%} on, in two runs"


def regressions(comparison: Comparison) -> str:
    """Return the causes of what regressed, each in a line of its own; empty if nothing did."""
    return "\n  ".join(cause_sentences(comparison))


def cause_sentences(comparison: Comparison) -> Iterator[str]:
    """Yield a sentence for each cause of what regressed, or one for the gravest regression.

    The first one says what they come to in all.
    """
    regressed = comparison.of(Outcome.REGRESSED)
    if not regressed:
        return
    first, *others = _causes_in_words(comparison) or [change_sentence(comparison, regressed[0])]
    metric = comparison.causes[0].metric if comparison.causes else regressed[0].metric
    is_of_whole = not comparison.causes and not regressed[0].subject
    wholes = [] if is_of_whole else [whole for whole in comparison.wholes if whole.metric == metric]
    parts = [_difference(whole) for whole in wholes]
    # It is the same if a worker or a client is dearer, in tests that make their own clusters.
    words = [
        f"{name_of_whole(metric)} {part}" for part in parts if part not in ("+0.00%", "-0.00%")
    ]
    if len(regressed) > 1 or others:
        causes = [counted(len(comparison.causes), "cause")] if comparison.causes else []
        words.append(", ".join([*causes, counted(len(regressed), "figure")]))
    yield "; ".join([first, *words])
    yield from others[: CAUSES_SHOWN - 1]


def _causes_in_words(comparison: Comparison) -> list[str]:
    """Return a sentence for each cause, by its own figure as in tables: inner ones have theirs."""
    sentences = []
    for cause in comparison.causes:
        mine = (cause.metric, cause.function)
        own = (change for change in comparison.changes if (change.metric, change.subject) == mine)
        figures = (cause.before, cause.after, 0.0, 0.0)
        change = next(own, Change(*mine, "", Outcome.REGRESSED, *figures))
        sentences.append(f"{change_sentence(comparison, change)}: {ROLES[cause.role]}")
    return sentences


def undecided(comparison: Comparison) -> str:
    """Return why no verdict was possible; empty if one was."""
    open_ones = comparison.of(Outcome.UNDECIDED)
    words = [f"{change_sentence(comparison, change)}: {change.note}" for change in open_ones[:1]]
    more = f", and {len(open_ones) - 1} more" if len(open_ones) > 1 else ""
    return "; ".join([*comparison.reasons, *words]) + more


def change_sentence(comparison: Comparison, change: Change) -> str:
    """Return a change in words: `bytecodes of f: 1,052 before, 1,063 now per task (+1.05 %)`."""
    metric = METRICS[change.metric]
    unit = "task" if comparison.tasks is None else "round"
    per_unit = "" if metric.units is PERCENT or metric.is_peak else f" per {unit}"
    return (
        f"{change.metric} of {change.subject or name_of_whole(change.metric)}: "
        f"{_amount(change, change.before)} before, {_amount(change, change.after)} now{per_unit} "
        f"({_difference(change)})"
    )


def _amount(change: Change, value: float) -> str:
    return readable(value, METRICS[change.metric])


def _difference(change: Change) -> str:
    """Return how much it changed: shares in percentage points, all else relative to before."""
    if METRICS[change.metric].units is PERCENT:
        return f"{change.difference * 100:+.1f} pp"
    return "new" if change.relative is None else f"{change.relative:+.2%}"


def _interval(change: Change) -> str:
    """Return the bounds of the difference; empty for exact figures."""
    if change.low == change.high:
        return ""
    if METRICS[change.metric].units is PERCENT:
        return f"{change.low * 100:+.1f} to {change.high * 100:+.1f} pp"
    if not change.before:
        return ""
    return f"{change.low / change.before:+.1%} to {change.high / change.before:+.1%}"


HOTTEST = 7
"""Tests that a summary shows if none of them is notable."""

WITH_NEWS = 20
"""Tests with news that a summary shows: those of a longer list have one cause."""

T = TypeVar("T")


def notable_tests(results: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    """Return the tests to show, and the others.

    Shown are those that failed, are undecided or changed, and then the hottest.
    """
    notable = sum(map(is_notable, results))
    return top_and_rest(results, max(HOTTEST, min(notable, WITH_NEWS)), _rank)


def is_notable(result: Result) -> bool:
    """Whether a test failed, is undecided or changed."""
    return has_news(result) or result.verdict is not Verdict.PASS


def has_news(result: Result) -> bool:
    """Whether a test failed, or a figure changed."""
    is_failed = result.outcome not in WHOLE or result.verdict is Verdict.FAIL
    return is_failed or is_changed(result)


def top_and_rest(
    items: Sequence[T], most: int | None, rank: Callable[[T], Any]
) -> tuple[list[T], list[T]]:
    """Return the items of the lowest ranks, and the others; both in their order."""
    ranked = sorted(range(len(items)), key=lambda number: rank(items[number]))
    chosen = set(ranked[:most])
    return (
        [item for number, item in enumerate(items) if number in chosen],
        [item for number, item in enumerate(items) if number not in chosen],
    )


def _rank(result: Result) -> tuple[bool, int, bool, float]:
    """Sort failures first, then doubts, then changes, and what is equal by the scheduler's CPU."""
    return (
        result.outcome in WHOLE,
        GRAVEST_FIRST.index(result.verdict),
        not is_changed(result),
        -scheduler_seconds(result),
    )


def is_changed(result: Result) -> bool:
    """Whether a figure regressed, improved or shifted."""
    changes = (change for comparison in result.comparisons for change in comparison.changes)
    return any(change.outcome is not Outcome.UNDECIDED for change in changes)


def scheduler_seconds(result: Result) -> float:
    """Return the scheduler's CPU time in the test, by the backend that saw most of it."""
    return max((backend.window.cpu_seconds for backend in result.backends), default=0.0)
