"""Tests of what keeps a recording cheap, and that it leaves the scheduler as it found it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from at_work import at_work, by_value, inc
from distributed import Client, wait

from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.formats.workload import read_file

TASKS = 40


@by_value
def begin(path: str, dask_scheduler: Any = None) -> None:
    """Record, and count the calls of the recorder for transitions; runs on the scheduler."""
    from pytest_schedprof.replay.recorder import WorkloadRecorder
    from pytest_schedprof.replay.writing import FileWriter

    recorder = WorkloadRecorder(dask_scheduler, FileWriter(Path(path)))
    dask_scheduler.calls_of_recorder = []
    recorder.transition = lambda *call, **more: dask_scheduler.calls_of_recorder.append(call)
    recorder.begin()


@by_value
def end(dask_scheduler: Any = None) -> list[Any]:
    """Record no more; return the calls of the recorder for transitions."""
    dask_scheduler.extensions.pop("schedprof-record").end()
    calls: list[Any] = vars(dask_scheduler).pop("calls_of_recorder")
    return calls


@by_value
def places(dask_scheduler: Any = None) -> dict[str, Any]:
    """Return what stands in the scheduler's tables and among its own attributes."""
    tables = {**dask_scheduler.handlers, **dask_scheduler.stream_handlers}
    return {
        "plugins": sorted(dask_scheduler.plugins),
        "attributes": sorted(vars(dask_scheduler)),
        "extensions": sorted(dask_scheduler.extensions),
        "wrapped": sorted(op for op, handler in tables.items() if hasattr(handler, "__wrapped__")),
    }


@by_value
async def wait_for_tasks(number: int, dask_scheduler: Any = None) -> None:
    """Wait until the scheduler knows so few."""
    while len(dask_scheduler.tasks) > number:
        await asyncio.sleep(0.01)


@by_value
def known(dask_scheduler: Any = None) -> int:
    """Flush once for each thousand tasks and once more; return how many tasks are known then."""
    recorder = dask_scheduler.extensions["schedprof-record"]
    for _ in range(recorder.known.next // 1000 + 2):
        recorder.flush()
    return len(recorder.known.numbers)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with at_work(VirtualCluster, duration="10ms") as client:
        yield client


def test_a_recorder_is_told_of_no_transition_and_leaves_nothing(
    client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "work"
    before = client.run_on_scheduler(places)
    client.run_on_scheduler(begin, str(path))
    assert client.run_on_scheduler(places)["plugins"] == before["plugins"]
    futures = client.map(inc, range(TASKS), pure=False)
    wait(futures)
    del futures
    client.run_on_scheduler(wait_for_tasks, 0)
    assert client.run_on_scheduler(end) == []
    assert client.run_on_scheduler(places) == before
    recorded = read_file(str(path))
    numbers = [task.number for task in recorded.tasks()]
    assert sorted(recorded.results) == numbers == [*range(TASKS)]
    assert sorted(number for one in recorded.releases for number in one.tasks) == numbers


def test_tasks_that_the_scheduler_forgot_are_let_go(client: Client, tmp_path: Path) -> None:
    client.run_on_scheduler(begin, str(tmp_path / "work"))
    held = client.map(inc, range(TASKS), pure=False)
    for _ in range(3):
        wait(client.map(inc, range(10 * TASKS), pure=False))
    wait(held)
    client.run_on_scheduler(wait_for_tasks, TASKS)
    assert client.run_on_scheduler(known) == TASKS
    client.run_on_scheduler(end)


def test_a_client_that_leaves_is_recorded(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "work"
    client.run_on_scheduler(begin, str(path))
    with Client(client.scheduler.address) as other:  # type: ignore[union-attr]
        wait(other.map(inc, range(3), pure=False))
    client.run_on_scheduler(wait_for_tasks, 0)
    client.run_on_scheduler(end)
    assert [release.tasks for release in read_file(str(path)).releases][-1] == []
