"""The files of a run's tests: how many tests each has, how they ended, and what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_schedprof.model.result import WHOLE
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.pages.reading import TestFiles
from pytest_schedprof.presentation.limits import GRAVEST_FIRST
from pytest_schedprof.presentation.mattering import is_changed, scheduler_seconds

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
    rows = [_row(file, each, seconds[file], most) for file, each in groups.items()]
    return tuple(sorted(rows, key=_gravity))


def status_of(test: TestFiles) -> Verdict:
    """Return the verdict, or a failure if the test failed for another reason."""
    return test.verdict if test.entry.outcome in WHOLE else Verdict.FAIL


def _row(file: str, tests: Sequence[TestFiles], seconds: float, most: float) -> GroupRow:
    counts = Counter(map(status_of, tests))
    verdicts = tuple((each.value, counts[each]) for each in GRAVEST_FIRST if counts[each])
    changed = sum(bool(test.result and is_changed(test.result)) for test in tests)
    return GroupRow(file, len(tests), verdicts, changed, seconds, seconds / most)


def _gravity(row: GroupRow) -> tuple[int, int, float]:
    counts = dict(row.verdicts)
    return (
        -counts.get(Verdict.FAIL.value, 0),
        -counts.get(Verdict.INCONCLUSIVE.value, 0),
        -row.seconds,
    )


def _seconds(test: TestFiles) -> float:
    return scheduler_seconds(test.result) if test.result else 0.0
