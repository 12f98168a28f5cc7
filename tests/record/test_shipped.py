"""Tests of recorded workloads that are shipped, and of replays of what is made of them."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from distributed import Client

from pytest_schedprof.clusters.under_test import clean
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.editing.copies import scale
from pytest_schedprof.editing.cutting import cut, first_tasks
from pytest_schedprof.editing.merging import merge
from pytest_schedprof.editing.names import anonymise
from pytest_schedprof.formats.shipped import SHIPPED, place_of
from pytest_schedprof.formats.workload import read_workload, write_workload
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.workload import Workload
from pytest_schedprof.remote.control import Control
from pytest_schedprof.simulation.recorded import RecordedTasks
from pytest_schedprof.workloads import WORKLOADS, replay

ROOT = Path(__file__).parents[2]
MOST_BYTES = 200_000


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
    assert workload.results.keys() == {each.number for each in workload.tasks()}
    assert not any(each.is_error for each in workload.results.values())
    assert not workload.releases  # so a replay at any speed does all of the work


@pytest.fixture(scope="module")
def cluster() -> Iterator[VirtualCluster]:
    cluster = VirtualCluster(4, timeout_s=60, options={"workload": "recorded_shuffle"})
    yield cluster
    cluster.close()


def counted(cluster: VirtualCluster, work: Callable[[Client], object]) -> int:
    """Return how many tasks ended while some work was done."""
    with Control(cluster.address) as control:
        recorder = Recorder(control, [], 30.0)
        with Client(cluster.address) as client, recorder.round():
            work(client)
        ((segment,),) = recorder.rounds
        assert clean(control) is None
    return segment.facts.tasks


def test_a_large_size_is_several_replays(cluster: VirtualCluster) -> None:
    size = 2 * number_of_tasks(shipped("recorded_rechunk"))
    assert counted(cluster, lambda client: WORKLOADS["recorded_rechunk"](client, size)) == size


SOME = 150

MADE: dict[str, Callable[[Workload], Workload]] = {
    "cut": lambda workload: cut(workload, begin=workload.graphs[-10].time),
    "only": lambda workload: cut(first_tasks(workload, 2 * SOME), only="fit"),
    "scaled": lambda workload: scale(first_tasks(workload, SOME), tasks=3, workers=2),
    "merged": lambda workload: merge(
        [first_tasks(workload, SOME), first_tasks(shipped("recorded_rechunk"), SOME)]
    ),
    "anonymous": lambda workload: anonymise(first_tasks(workload, SOME)),
}


@pytest.mark.parametrize("how", MADE)
def test_what_is_made_of_one_is_replayed(cluster: VirtualCluster, tmp_path: Path, how: str) -> None:
    made = MADE[how](shipped("recorded_sweep"))
    path = tmp_path / "made.schedprof"
    path.write_bytes(write_workload(made))
    tasks = number_of_tasks(made)
    assert tasks >= SOME
    assert counted(cluster, lambda client: replay(client, path)) == tasks


def test_hollow_workers_find_durations_by_the_name() -> None:
    recorded, workload = RecordedTasks("recorded_sweep"), shipped("recorded_sweep")
    for task in workload.tasks():
        assert recorded.of(task.group.key(task.number)) == workload.results[task.number]


def test_both_distributions_have_the_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert built.returncode == 0, built.stderr
    (wheel,), (source,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as one, tarfile.open(source) as other:
        contents = one.namelist(), other.getnames()
    for names in contents:
        found = {Path(name).stem for name in names if name.endswith(".schedprof")}
        assert found == {*SHIPPED}
