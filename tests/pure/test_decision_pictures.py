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
from pytest_schedprof.report.decisions import MOST_WORKERS, WIDTH, kind_of, picture

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
    (stream,) = picture([("", ran(tasks))], None).streams
    for area in stream.areas:
        for left, top, width, height in NUMBERS.findall(area.path):
            assert 0 <= float(left) <= float(left) + float(width) <= WIDTH + 0.5
            assert 0 <= float(top) <= float(top) + float(height) <= stream.height + 0.1
    assert stream.mark is None


def test_tasks_side_by_side_on_one_worker_have_rows_of_their_own() -> None:
    (stream,) = picture([("", ran([(0, 0, 10), (0, 5, 10), (0, 10, 10)]))], None).streams
    assert len({top for _, top, _, _ in NUMBERS.findall(stream.areas[0].path)}) == 2


def test_tasks_too_near_to_be_told_apart_are_one_rectangle() -> None:
    many = [(0, 10 * number, 10) for number in range(5000)]
    (stream,) = picture([("", ran(many))], None).streams
    assert len(NUMBERS.findall(stream.areas[0].path)) == 1


def parted(count: int) -> tuple[Decided, Decided, Parting]:
    before = ran([(0, 0, 10)], count, "a", chosen=count - 1)
    after = ran([(1, 0, 20)], count, "b", chosen=0)
    return before, after, part(before, after)


def test_the_first_difference_is_marked_on_both_sides() -> None:
    before, after, parting = parted(3)
    shown = picture([("before", before), ("now", after)], parting)
    assert [each.mark for each in shown.streams] == [0.0, 0.0]
    one, other = (each.marked for each in shown.streams)
    assert one is not None
    assert other is not None
    assert other[2] > one[2]  # it took twice as long, on one scale
    assert [name for name, _ in shown.curves[0].lines] == ["old", "new"]


def test_workers_of_the_difference_have_a_row_if_there_are_too_many() -> None:
    before, after, parting = parted(MOST_WORKERS + 9)
    shown = picture([("before", before), ("now", after)], parting)
    names = [name for _, name in shown.streams[0].rows]
    assert len(names) == MOST_WORKERS
    assert names[-1] == f"{MOST_WORKERS + 8}"
    assert names[:2] == ["0", "1"]
    assert shown.hidden == 9


def test_a_run_without_tasks_has_an_empty_picture() -> None:
    empty = picture([("", Decided("a", {}))], None)
    assert empty.streams[0].areas == ()
    assert empty.curves[0].most == "0 B"


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
