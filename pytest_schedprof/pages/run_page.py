"""The page of a run: which tests it had, and what they have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from pytest_schedprof.model.backend import NO_BACKENDS, KnownBackends
from pytest_schedprof.model.explanation import Explanation
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.pages.groups import GroupRow, group_rows, status_of
from pytest_schedprof.pages.reading import RunFiles, TestFiles
from pytest_schedprof.pages.reasons import ReasonView, reason_view
from pytest_schedprof.presentation.amounts import Fact, Name, micros, name_of, percent
from pytest_schedprof.presentation.changes import NEWS, ChangeRow, gravest, outcome_words
from pytest_schedprof.presentation.explanation import MOST_EXPLAINED
from pytest_schedprof.presentation.functions import (
    FunctionRow,
    OwnerRow,
    functions_of_run,
    hottest,
    owner_rows,
    owners_of_run,
    sampling,
)
from pytest_schedprof.presentation.limits import GRAVEST_FIRST
from pytest_schedprof.presentation.mattering import is_changed
from pytest_schedprof.presentation.results import counts_of_run, facts_of_run
from pytest_schedprof.presentation.trends import TrendRow

CHANGES_SHOWN = 20
PAGE = "index.html"


@dataclass(frozen=True, slots=True)
class TestRow:
    """A test in the table of tests."""

    __test__ = False  # not a test class, whatever its name

    test_id: str
    link: str
    outcome: str
    verdict: str
    limits: str
    changes: str
    tasks: str
    cost: str
    cost_part: float
    """The cost as a fraction of that of the most expensive test."""
    owners: tuple[OwnerRow, ...]
    hottest: Name | None
    share: str
    problem: str
    kinds: tuple[str, ...]
    """What the test is found by: `fail`, `inconclusive`, `pass`, `changed`."""
    order: tuple[float, ...]
    """What columns are sorted by: gravity, tasks, cost, and the share of the hottest function."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """All that the page of a run shows."""

    run_id: str
    facts: tuple[Fact, ...]
    counts: tuple[Fact, ...]
    tests: tuple[TestRow, ...]
    groups: tuple[GroupRow, ...]
    """The files of many tests."""
    owners: tuple[OwnerRow, ...]
    functions: tuple[FunctionRow, ...]
    changes: tuple[tuple[str, ChangeRow], ...]
    """The gravest changes of all tests, each with the ID of its test."""
    reasons: tuple[ReasonView, ...] = ()
    """Why figures regressed."""
    trends: tuple[TrendRow, ...] = ()
    """The series of all tests that changed."""
    history: str = ""
    """What the trends were computed from; empty without a history."""


def page_of_run(
    run: RunFiles, known: KnownBackends = NO_BACKENDS, explained: Sequence[Explanation] = ()
) -> RunPage:
    """Return the page of a run, without trends.

    Args:
        run: the run, read back.
        known: facts about backends, which tell whose samples are shown.
        explained: why tests regressed.
    """
    sampled = [each for result in run.results if (each := sampling(result, known))]
    costs = [each.window.cpu_us_per_task or 0.0 for each in sampled]
    most = max(costs, default=0.0)
    comparisons = [each for result in run.results for each in result.comparisons]
    return RunPage(
        run_id=run.run.run_id,
        facts=tuple(facts_of_run(run.run, run.results)),
        counts=tuple(counts_of_run([test.verdict for test in run.tests], run.results)),
        tests=tuple(_row(test, most, known) for test in sorted(run.tests, key=_gravity)),
        groups=group_rows(run.tests),
        owners=owners_of_run(sampled),
        functions=functions_of_run(sampled),
        changes=tuple(gravest(comparisons, CHANGES_SHOWN)),
        reasons=tuple(map(reason_view, explained[:MOST_EXPLAINED])),
    )


def _gravity(test: TestFiles) -> int:
    """Sort broken tests first, and tests of one verdict in the order in which they ran."""
    return GRAVEST_FIRST.index(status_of(test))


def _row(test: TestFiles, most: float, known: KnownBackends) -> TestRow:
    backend = sampling(test.result, known) if test.result else None
    cost = (backend.window.cpu_us_per_task or 0.0) if backend else 0.0
    hot = hottest(backend.shares.functions, 1) if backend and backend.shares else []
    return TestRow(
        test_id=test.entry.test_id,
        link=quote(f"{test.entry.directory}/{PAGE}") if test.result else "",
        outcome=test.entry.outcome,
        verdict=test.verdict.value,
        limits=_limits(test.result),
        changes=", ".join(outcome_words(test.result.comparisons, NEWS)) if test.result else "",
        tasks=_tasks(test.result),
        cost=micros(cost),
        cost_part=cost / most if most else 0.0,
        owners=owner_rows(backend) if backend else (),
        hottest=name_of(hot[0].function) if hot else None,
        share=percent(hot[0].share.value) if hot else "",
        problem=test.problem,
        kinds=tuple(_kinds(test)),
        order=(_gravity(test), _task_count(test.result), cost, hot[0].share.value if hot else 0.0),
    )


def _limits(result: Result | None) -> str:
    """Return how many limits hold, of how many."""
    if result is None or not result.limits:
        return ""
    held = sum(limit.verdict is Verdict.PASS for limit in result.limits)
    return f"{held} of {len(result.limits)}"


def _kinds(test: TestFiles) -> Iterator[str]:
    yield status_of(test).value
    if test.result and is_changed(test.result):
        yield "changed"


def _tasks(result: Result | None) -> str:
    tasks = _task_count(result)
    return f"{tasks:,}" if tasks else ""


def _task_count(result: Result | None) -> int:
    return max((each.window.tasks for each in result.backends), default=0) if result else 0
