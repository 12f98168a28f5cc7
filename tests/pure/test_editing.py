"""Tests of changes of recorded workloads: parts, copies, several as one, and without names."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_workloads import PREFIXES, RESOURCES, shape, workloads

from pytest_schedprof.editing.copies import scale
from pytest_schedprof.editing.cutting import cut, first_tasks
from pytest_schedprof.editing.merging import merge
from pytest_schedprof.editing.names import anonymise, letters
from pytest_schedprof.formats.workload import read_workload, write_workload
from pytest_schedprof.model.workload import (
    Graph,
    Group,
    Release,
    Result,
    Task,
    WorkerEvent,
    Workload,
)

COUNTS = st.integers(1, 4)
TIMES = st.floats(0, 100)


def number_of_tasks(workload: Workload) -> int:
    return sum(1 for _ in workload.tasks())


def edges(workload: Workload) -> Counter[tuple[str, str]]:
    """How often a task of one prefix needs one of another."""
    prefixes = {each.number: each.group.prefix for each in workload.tasks()}
    return Counter(
        (each.group.prefix, prefixes[needed])
        for each in workload.tasks()
        for needed in each.dependencies
    )


def multiplied(counter: Counter[tuple[str, str]], times: int) -> Counter[tuple[str, str]]:
    return Counter({each: count * times for each, count in counter.items()})


def check(workload: Workload) -> None:
    """A workload that any program may have recorded, and that a file can hold."""
    numbers = [each.number for each in workload.tasks()]
    assert len(numbers) == len({*numbers})
    for events in (workload.graphs, workload.releases, workload.workers):
        times = [each.time for each in events]
        assert times == sorted(times)
        assert all(each >= 0 for each in times)
    rounded = {
        number: replace(each, time=round(each.time, 6), seconds=round(each.seconds, 6))
        for number, each in workload.results.items()
    }
    again = read_workload(write_workload(workload))
    assert replace(again, results={}) == replace(workload, results={}, is_cut=False)
    assert again.results.keys() == rounded.keys()
    assert all(again.results[each].time == pytest.approx(rounded[each].time) for each in rounded)


@given(workloads(), COUNTS, COUNTS)
def test_copies_have_the_same_shape_so_many_times(
    workload: Workload, tasks: int, workers: int
) -> None:
    scaled = scale(workload, tasks=tasks, workers=workers)
    check(scaled)
    assert Counter(shape(scaled)) == Counter(
        {each: count * tasks for each, count in Counter(shape(workload)).items()}
    )
    assert edges(scaled) == multiplied(edges(workload), tasks)
    times = [each.time for each in workload.graphs for _ in range(tasks)]
    assert [each.time for each in scaled.graphs] == times
    assert len(scaled.results) == tasks * len(workload.results)
    assert len(scaled.releases) == tasks * len(workload.releases)
    assert len(scaled.workers) == workers * len(workload.workers)


@given(workloads())
def test_one_copy_is_the_workload(workload: Workload) -> None:
    assert scale(workload) == workload


@given(workloads(), COUNTS)
def test_copies_share_neither_groups_nor_clients(workload: Workload, tasks: int) -> None:
    numbered = {each.group for each in workload.tasks() if each.group.number is not None}
    clients = {each.client for each in workload.graphs}
    scaled = scale(workload, tasks=tasks)
    groups = {each.group for each in scaled.tasks() if each.group.number is not None}
    assert len(groups) == tasks * len(numbered)
    assert len({each.client for each in scaled.graphs}) == tasks * len(clients)


def restricted(*workers: int) -> Task:
    return Task(0, Group("inc", 0), [], {"workers": [*workers]})


def test_restricted_copies_are_shared_out_to_copies_of_the_workers() -> None:
    joined = [WorkerEvent(0.0, number, True, 1, 1) for number in range(3)]
    workload = Workload(graphs=[Graph(1.0, 0, [restricted(0, 2)], [0])], workers=joined)
    scaled = scale(workload, tasks=3, workers=2)
    found = [each.annotations["workers"] for each in scaled.tasks()]
    assert found == [[0, 2], [3, 5], [0, 2]]
    assert [each.worker for each in scaled.workers] == [0, 1, 2, 3, 4, 5]


def test_copies_can_come_later() -> None:
    workload = Workload(graphs=[Graph(1.0, 0, [restricted(0)], [0])])
    scaled = scale(workload, tasks=3, apart=10.0)
    assert [each.time for each in scaled.graphs] == [1.0, 11.0, 21.0]


@given(st.lists(workloads(), min_size=1, max_size=3))
def test_a_merged_workload_has_all_tasks_and_their_dependencies(several: list[Workload]) -> None:
    merged = merge(several)
    check(merged)
    assert shape(merged) == sorted(each for one in several for each in shape(one))
    assert edges(merged) == sum((edges(one) for one in several), Counter())
    assert len(merged.results) == sum(len(one.results) for one in several)
    assert len(merged.workers) == sum(len(one.workers) for one in several)
    assert merge([several[0]]) == several[0]


def at(begun: str) -> Workload:
    return Workload("2026.8.0", begun, graphs=[Graph(1.0, 0, [restricted(0)], [0])])


def test_workloads_can_keep_the_time_between_them() -> None:
    nine, ten = "2026-11-23T10:00:00+01:00", "2026-11-23T10:00:00+00:00"
    merged = merge([at(ten), at(nine)], by_clock=True)
    assert [each.time for each in merged.graphs] == [1.0, 3601.0]
    assert merged.begun == nine
    with pytest.raises(ValueError, match="isoformat"):
        merge([at(ten), at("")], by_clock=True)


@given(workloads(), TIMES, TIMES, st.sampled_from(["*", *PREFIXES, "sum*"]))
def test_a_part_is_closed(workload: Workload, one: float, other: float, only: str) -> None:
    begin, end = sorted((one, other))
    part = cut(workload, begin=begin, end=end, only=only)
    check(part)
    check_closed(workload, part)


@given(workloads(), st.integers(0, 60))
def test_first_tasks_are_closed(workload: Workload, count: int) -> None:
    part = first_tasks(workload, count)
    check(part)
    check_closed(workload, part)


def check_closed(workload: Workload, part: Workload) -> None:
    """All dependencies of a part are in it; tasks that are not complete have results."""
    before = {each.number: each for each in workload.tasks()}
    here = {each.number: each for each in part.tasks()}
    assert here.keys() <= before.keys()
    for number, task in here.items():
        assert {*task.dependencies} <= here.keys()
        if task != before[number]:
            assert not task.dependencies
            assert part.results[number].seconds == 0
    asked = [*(each.wanted for each in part.graphs), *(each.tasks for each in part.releases)]
    assert {number for each in asked for number in each} <= here.keys()


@given(workloads())
def test_the_whole_is_a_part(workload: Workload) -> None:
    part = cut(workload)
    assert [*part.tasks()] == [*workload.tasks()]
    assert part.results == workload.results
    assert part.workers == workload.workers
    assert part.releases == workload.releases


def chain() -> Workload:
    """A task that needs one of an earlier graph, and workers that come and go."""
    load, use = Task(0, Group("load"), [], {}), Task(1, Group("use", 0), [0], {"priority": 1})
    return Workload(
        begun="2026-11-23T14:00:00+00:00",
        graphs=[Graph(1.0, 0, [load], [0]), Graph(30.0, 0, [use], [1])],
        releases=[Release(2.0, 0, [0]), Release(40.0, 0, [0, 1]), Release(50.0, 0, [])],
        workers=[
            WorkerEvent(0.0, 0, True, 1, 1),
            WorkerEvent(0.0, 1, True, 1, 1),
            WorkerEvent(5.0, 1, False, 1, 1),
            WorkerEvent(25.0, 2, True, 1, 1),
        ],
        results={0: Result(3.0, 2.0, 100, False), 1: Result(35.0, 5.0, 7, False)},
    )


def test_what_a_part_needs_is_held() -> None:
    part = cut(chain(), begin=20.0, end=45.0)
    (graph,) = part.graphs
    assert graph.time == 10.0
    assert [*graph.tasks] == [Task(0, Group("load"), [], {}), *chain().graphs[1].tasks]
    assert part.results == {0: Result(10.0, 0.0, 100, False), 1: Result(15.0, 5.0, 7, False)}
    assert part.releases == [Release(20.0, 0, [0, 1])]
    assert part.workers == [WorkerEvent(0.0, 0, True, 1, 1), WorkerEvent(5.0, 2, True, 1, 1)]
    assert part.begun == "2026-11-23T14:00:20+00:00"


def test_a_prefix_can_be_cut_out() -> None:
    part = cut(chain(), only="load")
    assert [each.group.prefix for each in part.tasks()] == ["load"]
    assert part.releases == [
        Release(2.0, 0, [0]), Release(40.0, 0, [0]), Release(50.0, 0, [])
    ]  # fmt: skip


def test_tasks_that_ended_first_need_none_that_ended_later() -> None:
    part = first_tasks(chain(), 1)
    assert [each.number for each in part.tasks()] == [0]
    assert part.results == {0: chain().results[0]}
    assert number_of_tasks(first_tasks(chain(), 100)) == 2
    assert number_of_tasks(cut(chain(), begin=math.inf)) == 0


@given(workloads())
def test_no_name_is_left(workload: Workload) -> None:
    hidden = anonymise(workload)
    check(hidden)
    assert not any(name in repr([*hidden.tasks()]) for name in (*PREFIXES, *RESOURCES))
    before = [each.group.prefix for each in workload.tasks()]
    after = [each.group.prefix for each in hidden.tasks()]
    assert dict(zip(before, after, strict=True)) == {
        each: f"prefix-{letters(number)}" for number, each in enumerate(dict.fromkeys(before))
    }
    assert [len(each.dependencies) for each in hidden.tasks()] == [
        len(each.dependencies) for each in workload.tasks()
    ]


@given(workloads())
def test_who_has_no_names_keeps_none(workload: Workload) -> None:
    hidden = anonymise(workload)
    assert anonymise(hidden) == hidden


def test_numbers_in_letters_are_all_different() -> None:
    assert [letters(each) for each in (0, 25, 26, 27, 701, 702)] == [
        "a", "z", "aa", "ab", "zz", "aaa"
    ]  # fmt: skip
