"""Tests of files of recorded workloads that are written as a whole, and read again."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import changed_bytes
from random_workloads import Maker, workloads

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.formats import workload as formats
from pytest_schedprof.formats.workload import MAGIC, read_files, read_workload, write_workload
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


def test_results_are_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [Task(number, Group("inc"), [], {}) for number in range(10)]
    results = {task.number: Result(0.5, 1e-6, task.number, False) for task in tasks}
    workload = Workload(graphs=[Graph(0.0, 0, tasks, [9])], results=results)
    whole = len(write_workload(workload))
    monkeypatch.setattr(formats, "TOGETHER", 3)
    content = write_workload(workload)
    assert len(content) > whole
    assert read_workload(content) == workload
    assert len(read_workload(content[:-1]).results) == 9


def test_a_recording_is_read_that_was_killed_when_its_next_file_had_just_begun(
    tmp_path: Path,
) -> None:
    graph = Graph(0.0, 0, [Task(0, Group("inc"), [], {})], [0])
    first = Workload(distributed="2026.9.0", name="monday", graphs=[graph])
    second = replace(
        first, since=5.0, graphs=[replace(graph, tasks=[Task(1, Group("inc"), [], {})])]
    )
    for number, workload in enumerate((first, second), 1):
        (tmp_path / f"work-{number}.schedprof").write_bytes(write_workload(workload))
    (tmp_path / "work-3.schedprof").write_bytes(MAGIC)
    whole = read_files(str(tmp_path / "work-*.schedprof"))
    assert [(graph.time, len(graph.tasks)) for graph in whole.graphs] == [(0.0, 1), (5.0, 1)]
    assert whole.name == "monday"
    strange = tmp_path / "work-4.schedprof"
    strange.write_bytes(write_workload(replace(first, name="tuesday")))
    with pytest.raises(ArtifactError, match="different recordings"):
        read_files(str(tmp_path / "work-*.schedprof"))
    strange.unlink()
    (tmp_path / "work-1.schedprof").unlink()
    (tmp_path / "work-2.schedprof").unlink()
    assert read_files(str(tmp_path / "work-*.schedprof")).graphs == []


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
