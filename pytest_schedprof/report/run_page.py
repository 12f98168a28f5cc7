"""The rows of the page of a run: its tests, and the files that they are in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import WHOLE, Result
from pytest_schedprof.report.changes import is_changed, scheduler_seconds
from pytest_schedprof.report.tables import GRAVEST_FIRST
from pytest_schedprof.store.run_files import TestFiles

MANY = 20
"""Tests from which on a page shows their files."""

CHANGES_SHOWN = 20

Group = tuple[str, int, list[tuple[Verdict, int]], int, float]
"""A file, its number of tests, that of each verdict, that of tests in which something changed, and
the scheduler's CPU seconds."""


def groups_of(tests: Sequence[TestFiles]) -> list[Group]:
    """Return the files, the gravest verdicts first; nothing for a few tests or a single file."""
    files: dict[str, list[TestFiles]] = {}
    for test in tests:
        files.setdefault(test.entry.test_id.partition("::")[0], []).append(test)
    if len(tests) <= MANY or len(files) == 1:
        return []
    return sorted((_group(*file) for file in files.items()), key=_group_gravity)


def _group(file: str, tests: Sequence[TestFiles]) -> Group:
    counts = Counter(map(status_of, tests))
    verdicts = [(verdict, counts[verdict]) for verdict in GRAVEST_FIRST if counts[verdict]]
    results = [test.result for test in tests if test.result]
    seconds = sum(map(scheduler_seconds, results))
    return file, len(tests), verdicts, sum(map(is_changed, results)), seconds


def _group_gravity(group: Group) -> tuple[int, int, float]:
    _, _, verdicts, _, seconds = group
    counts = dict(verdicts)
    return -counts.get(Verdict.FAIL, 0), -counts.get(Verdict.INCONCLUSIVE, 0), -seconds


def status_of(test: TestFiles) -> Verdict:
    """Return the verdict, or a failure if the test failed for another reason."""
    return test.verdict if test.entry.outcome in WHOLE else Verdict.FAIL


def gravity_of(test: TestFiles) -> int:
    """Sort broken tests first, and tests of one verdict in the order in which they ran."""
    return GRAVEST_FIRST.index(status_of(test))


def limits_held(result: Result) -> str:
    """Return how many limits hold, of how many; empty without limits."""
    held = sum(limit.verdict is Verdict.PASS for limit in result.limits)
    return f"{held} of {len(result.limits)}" if result.limits else ""


def kinds_of(test: TestFiles) -> Iterator[str]:
    """Yield what the test is found by: `fail`, `inconclusive`, `pass`, `changed`."""
    yield status_of(test).value
    if test.result and is_changed(test.result):
        yield "changed"


def of_kind(tests: Iterable[TestFiles], kind: str) -> list[TestFiles]:
    """Return the tests that are found by a kind."""
    return [test for test in tests if kind in kinds_of(test)]


def tasks_of(result: Result) -> int:
    """Return the tasks of the backend that saw most of them."""
    return max((backend.window.tasks for backend in result.backends), default=0)
