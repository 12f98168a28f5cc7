"""Tests of the pictures of decisions: task streams and what workers held."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.judge.parting import part
from pytest_schedprof.model.comparison import Parting
from pytest_schedprof.model.decisions import (
    Decided,
    DecisionColumns,
    HeldColumns,
    TaskColumns,
    TransferColumns,
)
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


def test_tasks_side_by_side_on_one_worker_have_rows_of_their_own() -> None:
    decided = ran([(0, 0, 10), (0, 5, 10), (0, 10, 10)])
    ((_, _, path),) = Picture([("", decided)], None).areas(decided)
    assert len({top for _, top, _, _ in NUMBERS.findall(path)}) == 2


def test_tasks_too_near_to_be_told_apart_are_one_rectangle() -> None:
    decided = ran([(0, 10 * number, 10) for number in range(5000)])
    ((_, _, path),) = Picture([("", decided)], None).areas(decided)
    assert len(NUMBERS.findall(path)) == 1


def parted(count: int) -> tuple[Decided, Decided, Parting]:
    before = ran([(0, 0, 10)], count, "a", chosen=count - 1)
    after = ran([(1, 0, 20)], count, "b", chosen=0)
    return before, after, part(before, after)


def test_the_first_difference_is_marked_on_both_sides() -> None:
    before, after, parting = parted(3)
    picture = Picture([("before", before), ("now", after)], parting)
    choices = [choice for _, _, choice in picture.sides if choice]
    assert [picture.mark(choice) for choice in choices] == [0.0, 0.0]
    one, other = map(picture.marked, (before, after), choices)
    assert one is not None
    assert other is not None
    assert other[2] > one[2]  # it took twice as long, on one scale
    _, _, lines = next(picture.curves())
    assert [name for name, _ in lines] == ["old", "new"]


def test_workers_of_the_difference_have_a_row_if_there_are_too_many() -> None:
    before, after, parting = parted(MOST_WORKERS + 9)
    picture = Picture([("before", before), ("now", after)], parting)
    names = [name for _, name in picture.rows]
    assert len(names) == MOST_WORKERS
    assert names[-1] == f"{MOST_WORKERS + 8}"
    assert names[:2] == ["0", "1"]
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
