"""Tests of the pictures of decisions: task streams and what workers held."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.formats.counted import (
    Decided,
    DecisionColumns,
    HeldColumns,
    TaskColumns,
    TransferColumns,
)
from pytest_schedprof.judge.parting import part
from pytest_schedprof.report.decisions import MOST_WORKERS, WIDTH, Picture, kind_of

Task = tuple[int, int, int]
"""Number of the worker, start and duration."""


def ran(tasks: list[Task], workers: int = 3, hash: str = "a", chosen: int = 0) -> Decided:
    """Return a run of these tasks in which one decision was made."""
    worker, start, took = ([task[i] for task in tasks] for i in range(3))
    one, zero = [1], [0]
    return Decided(
        hash,
        {},
        [f"inc-{number}" for number in range(len(tasks))] or ["inc-0"],
        [f"worker-{number}" for number in range(workers)],
        DecisionColumns(
            zero, zero, zero, [chosen], zero, zero, zero, zero, one, [-1], zero, zero, zero
        ),
        TaskColumns([*range(len(tasks))], worker, start, took, [0] * len(tasks)),
        TransferColumns([0], [5], [5]),
        HeldColumns([0, 50], [10, 30], [10, 20]),
    )


TASKS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 10**9), st.integers(0, 10**8)), max_size=30
)
NUMBERS = re.compile(r"M(\S+) (\S+?)h([0-9.e-]+)v([0-9.]+)")


@given(TASKS)
def test_all_that_is_drawn_is_inside_of_the_picture(tasks: list[Task]) -> None:
    decided = ran(tasks)
    picture = Picture([("", decided)], None)
    for _, _, path in picture.areas(decided):
        for left, top, width, height in NUMBERS.findall(path):
            assert 0 <= float(left) <= float(left) + float(width) <= WIDTH + 0.5
            assert 0 <= float(top) <= float(top) + float(height) <= picture.height + 0.1
    assert picture.first_mark is None


@pytest.mark.parametrize(
    ("tasks", "rows", "rectangles"),
    [
        ([(0, 0, 10), (0, 5, 10), (0, 10, 10)], 2, 2),  # side by side on one worker
        ([(0, 10 * number, 10) for number in range(5000)], 1, 1),  # too near to be told apart
    ],
)
def test_tasks_of_a_worker_have_as_few_rows_and_rectangles_as_show_them(
    tasks: list[Task], rows: int, rectangles: int
) -> None:
    decided = ran(tasks)
    ((_, _, path),) = Picture([("", decided)], None).areas(decided)
    numbers = NUMBERS.findall(path)
    assert (len({top for _, top, _, _ in numbers}), len(numbers)) == (rows, rectangles)


def parted(count: int) -> tuple[Decided, Decided, Picture]:
    before = ran([(0, 0, 10)], count, "a", chosen=count - 1)
    after = ran([(1, 0, 20)], count, "b", chosen=0)
    return before, after, Picture([("before", before), ("now", after)], part(before, after))


def test_the_first_difference_is_marked_on_both_sides() -> None:
    before, after, picture = parted(3)
    choices = [choice for _, _, choice in picture.sides if choice]
    assert [picture.mark(choice) for choice in choices] == [0.0, 0.0]
    one, other = map(picture.marked, (before, after), choices)
    assert one is not None
    assert other is not None
    assert other[2] > one[2]  # it took twice as long, on one scale
    _, _, lines = next(picture.curves())
    assert [name for name, _ in lines] == ["old", "new"]


def test_workers_of_the_difference_have_a_row_if_there_are_too_many() -> None:
    *_, picture = parted(MOST_WORKERS + 9)
    names = [name for _, name in picture.rows]
    assert len(names) == MOST_WORKERS
    assert (names[:2], names[-1]) == (["0", "1"], f"{MOST_WORKERS + 8}")
    assert picture.hidden == 9


def test_a_run_without_tasks_has_an_empty_picture() -> None:
    decided = Decided("a", {})
    empty = Picture([("", decided)], None)
    assert empty.areas(decided) == []
    assert next(empty.curves())[1] == "0 B"


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("inc-a859fafd-625a-4bdb-a990-6359090ad6fe-0", "inc"),
        ("('sum-aggregate-0f3c', 1, 2)", "sum-aggregate"),
        ("read-parquet-deadbeef", "read-parquet"),
        ("x", "x"),
        ("", ""),
        ("(", "("),
    ],
)
def test_kinds_of_tasks_are_named_as_dask_does(key: str, kind: str) -> None:
    assert kind_of(key) == kind
