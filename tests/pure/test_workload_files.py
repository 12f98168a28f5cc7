"""Tests of files of recorded workloads that are written as a whole, and read again."""

from __future__ import annotations

import random
from dataclasses import fields

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import changed_bytes
from random_workloads import Maker, workloads
from written_workloads import write_workload

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.formats import workload as formats
from pytest_schedprof.formats.workload import MAGIC, as_block, read_workload
from pytest_schedprof.model.workload import Graph, Group, Result, Task, Workload


@given(workloads())
def test_what_is_written_is_read_again(workload: Workload) -> None:
    assert read_workload(write_workload(workload)) == workload


def test_the_property_is_about_every_field() -> None:
    """A field that is left at its default is one that nobody tests."""
    made = Maker(seed=1, graphs=4, tasks=12, events=5).make()
    defaults = Workload()
    untried = {
        field
        for field in fields(Workload)
        if getattr(made, field.name) == getattr(defaults, field.name)
    }
    assert {field.name for field in untried} == {"is_cut"}


def test_results_are_in_several_blocks() -> None:
    tasks = [Task(number, Group("inc"), [], {}) for number in range(10)]
    results = {task.number: Result(0.5, 1e-6, task.number, False) for task in tasks}
    workload = Workload(graphs=[Graph(0.0, 0, tasks, [9])], results=results)
    whole = len(write_workload(workload))
    content = write_workload(workload, together=3)
    assert len(content) > whole
    assert read_workload(content) == workload
    assert len(read_workload(content[:-1]).results) == 9


@given(workloads(), st.integers(0, 2**32))
def test_a_damaged_file_is_read_up_to_there_or_refused(workload: Workload, seed: int) -> None:
    content = write_workload(workload)
    damaged = changed_bytes(random.Random(seed), content)
    try:
        part = read_workload(damaged)
    except ArtifactError:
        assert not damaged.startswith(MAGIC)
        return
    assert part.graphs == workload.graphs[: len(part.graphs)]


OTHERS: tuple[object, ...] = (
    None,
    "x",
    -1,
    2**63,
    1.5,
    float("nan"),
    b"1234567",
    b"\xff" * 8,
    [],
    [[]],
    [0.5],
    {},
)


@given(workloads(), st.integers(0, 2**32), st.sampled_from(OTHERS))
def test_a_block_with_something_else_in_it_is_refused(
    workload: Workload, seed: int, other: object
) -> None:
    draw = random.Random(seed)
    blocks = [
        msgpack.unpackb(block) for block in formats._blocks(write_workload(workload), workload)
    ]
    block = draw.choice(blocks)
    block[draw.choice(list(block))] = other
    try:
        read = read_workload(MAGIC + b"".join(map(as_block, blocks)))
    except ArtifactError:
        return
    write_workload(read)  # it is a workload, though another one


def with_tasks(*needs: tuple[int, list[int]]) -> bytes:
    """Return a file with one graph, of tasks by number that need others."""
    tasks = [Task(number, Group("inc"), needed, {}) for number, needed in needs]
    return write_workload(Workload(graphs=[Graph(0.0, 0, tasks, [])]))


def test_tasks_that_need_each_other_are_refused() -> None:
    assert read_workload(with_tasks((2, [3]), (3, [1]), (1, [])))
    for circle in (with_tasks((1, [1])), with_tasks((1, [3]), (2, [1]), (3, [2]))):
        with pytest.raises(ArtifactError, match=r"the file is damaged: .*tasks need each other"):
            read_workload(circle)


def test_a_file_may_not_unpack_to_more_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    content = with_tasks(*((number, []) for number in range(1000)))
    monkeypatch.setattr(formats, "MOST_UNPACKED", 40_000)
    assert len(content) < 4_000
    with pytest.raises(ArtifactError, match="it has more than 40000 bytes when it is unpacked"):
        read_workload(content + content[len(MAGIC) :])
    assert read_workload(content)
