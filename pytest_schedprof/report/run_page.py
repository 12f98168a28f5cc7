"""The page of a run: which tests it had, and what they have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from pytest_schedprof.model.backend import NO_BACKENDS, KnownBackends
from pytest_schedprof.model.explanation import Explanation
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import WHOLE, Result
from pytest_schedprof.report.changes import (
    NEWS,
    ChangeRow,
    gravest,
    is_changed,
    outcome_words,
    scheduler_seconds,
)
from pytest_schedprof.report.page_reading import RunFiles, TestFiles
from pytest_schedprof.report.results import counts_of_run, facts_of_run
from pytest_schedprof.report.tables import (
    GRAVEST_FIRST,
    FunctionRow,
    OwnerRow,
    functions_of_run,
    hottest,
    owner_rows,
    owners_of_run,
    sampling,
)
from pytest_schedprof.report.test_page import ReasonView, reason_view
from pytest_schedprof.report.trends import TrendRow
from pytest_schedprof.report.words import MOST_EXPLAINED, Fact, Name, micros, name_of, percent

MANY = 20
"""Tests from which on a page shows their files."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """The tests of one file."""

    file: str
    tests: int
    verdicts: tuple[tuple[str, int], ...]
    """Each verdict that there is, the gravest first, with the number of its tests."""
    changed: int
    """Tests in which something changed."""
    seconds: float
    """CPU time of the scheduler in all tests."""
    part: float
    """This time as a fraction of that of the most expensive file."""


def group_rows(tests: Sequence[TestFiles]) -> tuple[GroupRow, ...]:
    """Return the files, the gravest verdicts first; nothing for a few tests or a single file."""
    groups: dict[str, list[TestFiles]] = {}
    for test in tests:
        groups.setdefault(test.entry.test_id.partition("::")[0], []).append(test)
    if len(tests) <= MANY or len(groups) == 1:
        return ()
    seconds = {file: sum(map(_seconds, each)) for file, each in groups.items()}
    most = max(seconds.values()) or 1.0
    rows = [_group_row(file, each, seconds[file], most) for file, each in groups.items()]
    return tuple(sorted(rows, key=_group_gravity))


def status_of(test: TestFiles) -> Verdict:
    """Return the verdict, or a failure if the test failed for another reason."""
    return test.verdict if test.entry.outcome in WHOLE else Verdict.FAIL


def _group_row(file: str, tests: Sequence[TestFiles], seconds: float, most: float) -> GroupRow:
    counts = Counter(map(status_of, tests))
    verdicts = tuple((each.value, counts[each]) for each in GRAVEST_FIRST if counts[each])
    changed = sum(bool(test.result and is_changed(test.result)) for test in tests)
    return GroupRow(file, len(tests), verdicts, changed, seconds, seconds / most)


def _group_gravity(row: GroupRow) -> tuple[int, int, float]:
    counts = dict(row.verdicts)
    return (
        -counts.get(Verdict.FAIL.value, 0),
        -counts.get(Verdict.INCONCLUSIVE.value, 0),
        -row.seconds,
    )


def _seconds(test: TestFiles) -> float:
    return scheduler_seconds(test.result) if test.result else 0.0


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
