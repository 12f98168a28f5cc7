"""Tests of recorded workloads that are shipped."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from distributed import Client
from support import python

from pytest_schedprof.clusters.under_test import clean
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.control.control import Control
from pytest_schedprof.formats.workload import SHIPPED, place_of, read_workload
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.workload import Workload
from pytest_schedprof.virtual.behaviour import RecordedTasks
from pytest_schedprof.workloads import WORKLOADS
from pytest_schedprof.workloads.collections import first_tasks

ROOT = Path(__file__).parents[2]
MOST_BYTES = 200_000

SOME = 150


def shipped(name: str) -> Workload:
    return read_workload(place_of(name).read_bytes())


def number_of_tasks(workload: Workload) -> int:
    return sum(1 for _ in workload.tasks())


@pytest.mark.parametrize("name", SHIPPED)
def test_each_is_whole_and_small(name: str) -> None:
    assert place_of(name).stat().st_size < MOST_BYTES
    workload = shipped(name)
    assert not workload.is_cut
    assert number_of_tasks(workload) > 1000
    assert workload.results.keys() == {task.number for task in workload.tasks()}
    assert not any(result.is_error for result in workload.results.values())
    assert not workload.releases  # so a replay at any speed does all of the work


@pytest.fixture(scope="module")
def cluster() -> Iterator[VirtualCluster]:
    cluster = VirtualCluster(4, timeout_s=60, options={"workload": "recorded_shuffle"})
    yield cluster
    cluster.close()


def counted(cluster: VirtualCluster, work: Callable[[Client], object]) -> int:
    """Return how many tasks ended while some work was done."""
    with Control(cluster.address) as control:
        recorder = Recorder(control, [], 100.0)
        with Client(cluster.address) as client, recorder.round():
            work(client)
        ((segment,),) = recorder.rounds
        assert clean(control) is None
    return segment.facts.tasks


def test_a_large_size_is_several_replays(cluster: VirtualCluster) -> None:
    size = 2 * number_of_tasks(shipped("recorded_rechunk"))
    assert counted(cluster, lambda client: WORKLOADS["recorded_rechunk"](client, size)) == size


def test_a_small_size_is_the_tasks_that_ended_first(cluster: VirtualCluster) -> None:
    assert counted(cluster, lambda client: WORKLOADS["recorded_sweep"](client, SOME)) == SOME


@pytest.mark.parametrize("name", SHIPPED)
def test_tasks_that_ended_first_need_none_that_ended_later(name: str) -> None:
    whole = shipped(name)
    part = first_tasks(whole, SOME)
    tasks = {task.number: task for task in part.tasks()}
    assert len(tasks) == SOME
    assert all({*task.dependencies} <= tasks.keys() for task in tasks.values())
    targets = {number for graph in part.graphs for number in graph.wanted}
    needed = {number for task in tasks.values() for number in task.dependencies}
    assert tasks.keys() - needed <= targets <= tasks.keys()
    others = whole.results.keys() - tasks.keys()
    last = max(part.results[number].time for number in tasks)
    assert last <= min(whole.results[number].time for number in others)


def test_hollow_workers_find_durations_by_the_name() -> None:
    recorded, workload = RecordedTasks("recorded_sweep"), shipped("recorded_sweep")
    for task in workload.tasks():
        assert recorded.of(task.group.key(task.number)) == workload.results[task.number]


def test_both_distributions_have_the_files(tmp_path: Path) -> None:
    python("-m", "hatchling", "build", "-d", str(tmp_path), cwd=ROOT)
    (wheel,), (source,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as one, tarfile.open(source) as other:
        contents = one.namelist(), other.getnames()
    for names in contents:
        assert {Path(name).stem for name in names if name.endswith(".schedprof")} == {*SHIPPED}
