"""Tests of decisions: where two runs of a test part, and the pictures of both."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats.counted import (
    NOBODY,
    Decided,
    DecisionColumns,
    HeldColumns,
    TaskColumns,
    TransferColumns,
    read_decisions,
)
from pytest_schedprof.judge.parting import (
    choice_at,
    part,
    part_by_hash,
    with_first_difference,
    with_partings,
)
from pytest_schedprof.model.comparison import Comparison, Difference, Report
from pytest_schedprof.report.decisions import MOST_WORKERS, WIDTH, Picture, kind_of
from pytest_schedprof.report.words import details_of, headline_of

KEYS, WORKERS = ["a", "b", "c", "d"], ["worker-0", "worker-1", "worker-2"]

Row = tuple[int, int, int, int]
"""Time, number of the kind, of the key, and of the worker."""


def decided(rows: Sequence[Row], keys: Sequence[str] = KEYS, **more: object) -> Decided:
    """Return what a run recorded; each task finishes where it was last sent to."""
    at, kind, key, worker = ([row[i] for row in rows] for i in range(4))
    zeros = [0] * len(rows)
    decisions = DecisionColumns(
        at, kind, key, worker, [1_500] * len(rows), [2] * len(rows), [10**6] * len(rows),
        zeros, [2] * len(rows), [2] * len(rows), zeros, zeros, zeros,
    )  # fmt: skip
    tasks = TaskColumns(key, worker, at, zeros, zeros)
    fields = {"hash": str(hash(tuple(rows))), "figures": {}, **more}
    return msgspec.convert(
        {"keys": [*keys], "workers": WORKERS, **fields}
        | {"choices": msgspec.to_builtins(decisions), "tasks": msgspec.to_builtins(tasks)},
        Decided,
    )


ROWS = st.lists(
    st.tuples(
        st.integers(0, 9), st.integers(0, 2), st.integers(0, 3), st.integers(0, 2)
    ),
    max_size=12,
)  # fmt: skip


@given(ROWS, ROWS, ROWS)
def test_the_first_difference_is_right_after_what_is_the_same(
    common: list[Row], ours: list[Row], theirs: list[Row]
) -> None:
    before, after = decided([*common, *ours], hash="1"), decided([*common, *theirs], hash="2")
    parting = part(before, after)
    assert parting.alike >= len(common)
    one, other = (side.steps()[: parting.alike] for side in (before, after))
    assert one == other
    if parting.what is not Difference.GRAPH:
        assert parting.before == choice_at(before, parting.alike)
        assert parting.after == choice_at(after, parting.alike)
    if parting.what is Difference.MESSAGES:
        assert before.steps() == after.steps()
    else:
        assert before.steps()[parting.alike :][:1] != after.steps()[parting.alike :][:1]
    assert 0 <= parting.moved <= parting.tasks <= len(KEYS)


@given(ROWS, ROWS)
def test_the_difference_is_the_same_from_both_sides(ours: list[Row], theirs: list[Row]) -> None:
    before, after = decided(ours, hash="1"), decided(theirs, hash="2")
    there, back = part(before, after), part(after, before)
    assert (there.what, there.alike, there.moved) == (back.what, back.alike, back.moved)
    assert (there.before, there.after) == (back.after, back.before)
    assert (there.only_before, there.only_after) == (back.only_after, back.only_before)
    assert "\n" not in headline_of(there)
    assert list(details_of(there))


FIRST = (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("ours", "theirs", "what"),
    [
        ((5, 0, 1, 0), (5, 0, 1, 2), Difference.WORKER),
        ((5, 0, 1, 0), (6, 0, 1, 0), Difference.TIME),
        ((5, 0, 1, 0), (5, 0, 0, 0), Difference.TASK),
        ((5, 1, 1, 0), (5, 2, 1, 0), Difference.TASK),
    ],
)
def test_what_differs(ours: Row, theirs: Row, what: Difference) -> None:
    rest = [(9, 0, 0, 0), (9, 0, 1, 0)]  # so that both sides decide about the same tasks
    parting = part(decided([FIRST, ours, *rest]), decided([FIRST, theirs, *rest]))
    assert (parting.what, parting.alike) == (what, 1)


def test_a_theft_for_another_worker_differs() -> None:
    row = (3, 1, 0, 0)
    before, after = decided([FIRST, row]), decided([FIRST, row], hash="2")
    after.choices.other[1] = NOBODY
    parting = part(before, after)
    assert (parting.what, parting.alike) == (Difference.WORKER, 1)
    line = next(iter(details_of(parting)))
    assert line.endswith("for worker-2 (0 tasks, 0 s of work, 0 B to fetch)")


def test_the_later_decision_about_the_same_task_is_found() -> None:
    parting = part(
        decided([FIRST, (5, 0, 1, 0)]), decided([FIRST, (5, 0, 2, 1), (8, 0, 1, 2)])
    )  # fmt: skip
    assert parting.what is Difference.TASK
    assert parting.later is not None
    assert (parting.later.at_s, parting.later.key, parting.later.worker.name) == (
        8e-6,
        "b",
        "worker-2",
    )
    assert parting.only_after == 1
    assert list(details_of(parting))[2].startswith("now, later: at 8e-06 s 'b' to worker-2")


def test_other_graphs_are_told_as_such() -> None:
    parting = part(decided([FIRST]), decided([FIRST], keys=["x", "b", "c", "d"], hash="other"))
    assert parting.what is Difference.GRAPH
    assert "another graph" in headline_of(parting)
    assert list(details_of(parting))[:2] == ["before: 'a'", "now: 'x'"]


def test_another_graph_is_told_by_the_first_tasks_of_one_side_alone() -> None:
    rows = [FIRST, (1, 0, 1, 0), (2, 0, 2, 0)]
    parting = part(decided(rows), decided([(0, 0, 0, 2), *rows[1:]], keys=["a", "b", "x", "d"]))
    assert parting.what is Difference.GRAPH
    assert (parting.before and parting.before.key, parting.after and parting.after.key) == (
        "c",
        "x",
    )


def test_what_the_scheduler_compared_is_told() -> None:
    figures = [{"makespan": 1.0, "transfers": 4}, {"makespan": 1.5, "transfers": 4}]
    parting = part(
        decided([FIRST], figures=figures[0]), decided([(0, 0, 0, 1)], figures=figures[1])
    )  # fmt: skip
    assert headline_of(parting).startswith("parts in the first decision at 0 s: another worker for")
    seen = "(2 tasks, 1.5 ms of work, 1 MB to fetch), root-ish: the idle worker with the fewest"
    other = "the best of 2 others: worker-2 (0 tasks, 0 s of work, 0 B to fetch)"
    assert list(details_of(parting)) == [
        f"before: at 0 s to worker-0 {seen} tasks per thread; {other}",
        f"now: at 0 s to worker-1 {seen} tasks per thread; {other}",
        "what followed: 1 of 1 task ran on another worker, makespan 1 s -> 1.5 s",
    ]


def test_hashes_tell_which_round_differs_first() -> None:
    assert part_by_hash([], ["a"]) is None
    same = part_by_hash(["a", "b"], ["a", "b", "c"])
    assert same is not None
    assert (same.what, same.hashes, same.rounds) == (Difference.NOTHING, ("a", "a"), 2)
    assert not list(details_of(same))
    assert headline_of(same) == "decides the same in each of 2 rounds (hash a)"
    other = part_by_hash(["a", "b", "c"], ["a", "x", "y"])
    assert other is not None
    assert (other.what, other.hashes, other.round) == (Difference.UNKNOWN, ("b", "x"), 2)


def compared(before: Sequence[Decided], after: Sequence[Decided]) -> Comparison:
    hashes = ([one_side.hash for one_side in side] for side in (before, after))
    return Comparison("test", "decisions", "", (), 0, parting=part_by_hash(*hashes))


def test_files_tell_what_differs_in_the_first_round_that_does() -> None:
    same, ours, theirs = decided([FIRST]), decided([FIRST] * 2), decided([FIRST] * 3)
    before, after = [same, ours], [same, theirs]
    comparison = compared(before, after)
    parting = with_first_difference(comparison, lambda: before, lambda: after).parting
    assert parting is not None
    assert (parting.what, parting.round, parting.alike) == (Difference.END, 2, 2)


def test_files_that_are_gone_or_of_other_runs_tell_nothing() -> None:
    before, after = [decided([FIRST])], [decided([])]
    comparison = compared(before, after)
    for files in ([], after):
        assert with_first_difference(comparison, lambda: files, lambda: after) == comparison  # noqa: B023
    assert comparison.parting is not None
    assert "compare two runs that are here" in headline_of(comparison.parting)


def test_a_renamed_test_is_found_by_its_earlier_name() -> None:
    before, after = [decided([FIRST])], [decided([])]
    comparison = replace(compared(before, after), test_id="new")
    report = Report("a", "b", (comparison,), renamed=(("old", "new"),))
    parting = with_partings(report, {"old": before}.__getitem__, {"new": after}.__getitem__)
    assert parting.comparisons[0].parting is not None
    assert parting.comparisons[0].parting.what is Difference.END


GOOD = msgspec.json.encode(decided([FIRST]))


def test_what_was_written_can_be_read() -> None:
    assert read_decisions(GOOD) == decided([FIRST])
    assert read_decisions(b'{"hash": "", "figures": {}}').steps() == []


OTHERS = (
    b"",
    b"{}",
    b'{"hash": 1, "figures": {}}',
    GOOD.replace(b'"at":[0]', b'"at":[1e300]'),
    GOOD.replace(b'"hash":', b'"cash":'),
    GOOD.replace(b'"at":[', b'"at":[0,', 1),
    GOOD.replace(b'"start":[', b'"start":[0,', 1),
    *(
        re.sub(rb'"%b":\[\d+' % column, rb'"%b":[%d' % (column, number), GOOD)
        for column in (b"kind", b"rule", b"key", b"worker", b"other")
        for number in (-2, 99)
    ),
)


@pytest.mark.parametrize("content", OTHERS)
def test_other_files_are_refused(content: bytes) -> None:
    assert content != GOOD
    with pytest.raises(FormatError, match="not a file of decisions"):
        read_decisions(content)


RanTask = tuple[int, int, int]
"""Number of the worker, start and duration."""


def ran(tasks: list[RanTask], workers: int = 3, hash: str = "a", chosen: int = 0) -> Decided:
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
def test_all_that_is_drawn_is_inside_of_the_picture(tasks: list[RanTask]) -> None:
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
    tasks: list[RanTask], rows: int, rectangles: int
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
