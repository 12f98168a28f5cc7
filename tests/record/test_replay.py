"""Tests of replays: clients and workers come and go as they did, each at its own pace."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from at_work import at_work, by_value, inc
from distributed import Client, wait
from support import Project

from pytest_schedprof.clusters.contract import ClusterSpec
from pytest_schedprof.clusters.own import OwnCluster, SimulatedCluster
from pytest_schedprof.clusters.session import start
from pytest_schedprof.clusters.under_test import open_scheduler
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.control.control import Control
from pytest_schedprof.formats.workload import read_file
from pytest_schedprof.model.workload import Workload, workforce_of
from pytest_schedprof.replay.fetching import record_workload
from pytest_schedprof.replay.replaying import arrive_in_virtual_time, leave_in_virtual_time
from pytest_schedprof.workloads import replay

KINDS = [VirtualCluster, SimulatedCluster]


def replayed(
    kind: type[OwnCluster], path: Path, again: Path, workers: int = 4, **options: Any
) -> Workload:
    """Replay a workload, and return what is recorded of that."""
    with at_work(kind, workers, workload=str(path)) as client, record_workload(client, again):
        replay(client, path, **options)
    return read_file(str(again))


def changes(workload: Workload) -> list[tuple[bool, int, bool]]:
    """Return who joined and left after the first graph."""
    later = workforce_of(workload).later
    return [(event.has_joined, event.threads, event.is_retired) for event in later]


def makespan(workload: Workload) -> float:
    return max(result.time for result in workload.results.values()) - workload.graphs[0].time


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clients, of which one leaves early, and four changes of workers."""
    path = tmp_path_factory.mktemp("busy") / "work.schedprof"
    with at_work(VirtualCluster, duration="100ms") as client, record_workload(client, path):
        held = client.map(inc, range(200), pure=False)
        address: Any = client.scheduler
        with Client(address.address, set_as_default=False) as other:
            futures = other.map(inc, range(50), pure=False, priority=2)
            client.sync(asyncio.sleep, 0.5)
            client.run_on_scheduler(arrive_in_virtual_time, [("4", 2), ("5", 2)])
            client.sync(asyncio.sleep, 0.5)
            client.retire_workers(names=["1"])
            client.run_on_scheduler(leave_in_virtual_time, "2")
            wait(futures)
        wait(held)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_clients_and_workers_come_and_go(
    busy: Path, tmp_path: Path, kind: type[OwnCluster]
) -> None:
    recorded = read_file(str(busy))
    assert changes(recorded) == [(True, 2, False)] * 2 + [(False, 0, True), (False, 0, False)]
    again = replayed(kind, busy, tmp_path / "again")
    # In the end the cluster has the workers that it had, for another round.
    assert Counter(changes(again)[:4]) == Counter(changes(recorded))  # to retire takes a while
    assert sorted(change[0] for change in changes(again)[4:]) == [False, False, True, True]
    submitted = [Counter({graph.client: len(graph.tasks) for graph in run.graphs})
             for run in (recorded, again)]  # fmt: skip
    assert sorted(submitted[0].values()) == sorted(submitted[1].values()) == [50, 200]
    if kind is VirtualCluster:
        assert makespan(again) == pytest.approx(makespan(recorded), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_graphs_come_so_much_faster(tmp_path: Path, kind: type[OwnCluster]) -> None:
    path = tmp_path / "work.schedprof"
    with at_work(VirtualCluster, duration="10ms") as client, record_workload(client, path):
        kept = []
        for _ in range(3):
            kept += client.map(inc, range(4), pure=False)
            client.sync(asyncio.sleep, 20)
    again = replayed(kind, path, tmp_path / "again", speed=40.0)
    first, *_, last = (graph.time for graph in again.graphs)
    assert last - first >= 0.99
    if kind is VirtualCluster:  # tasks take their time at any speed
        assert last - first <= 1.1


def test_another_scheduler_makes_a_script_faster(tmp_path: Path) -> None:
    """What a client did when it had its results follows them, also if they come earlier."""
    path = tmp_path / "work.schedprof"
    with at_work(VirtualCluster, duration="1s") as client, record_workload(client, path):
        for _ in range(3):
            wait(client.map(inc, range(8), pure=False))
            client.sync(asyncio.sleep, 5)
    recorded = read_file(str(path))
    again = replayed(VirtualCluster, path, tmp_path / "again", workers=8)
    assert makespan(recorded) == pytest.approx(16, abs=0.5)
    assert makespan(again) == pytest.approx(13, abs=0.5)


def spread(client: Client) -> None:
    """Let each of four workers hold a result, and one fetch those of the others."""
    workers: Any = sorted(client.nthreads())
    held = [client.submit(inc, 0, pure=False, workers=[worker]) for worker in workers]
    wait(client.submit(inc, held, pure=False, workers=workers[:1]))
    client.sync(asyncio.sleep, 5)  # for some heartbeats


def test_transfers_take_as_long_as_where_they_were_recorded(tmp_path: Path) -> None:
    """Workers tell the scheduler the bandwidth that they measured, and the file has it."""
    path = tmp_path / "work.schedprof"
    with at_work(VirtualCluster, nbytes="20MB", bandwidth="4MB", duration="0s") as client:
        client.sync(asyncio.sleep, 20)  # the scheduler's mean begins with a guess
        with record_workload(client, path):
            spread(client)
    recorded = read_file(str(path))
    assert recorded.bandwidth == pytest.approx(4e6, rel=0.05)
    again = replayed(VirtualCluster, path, tmp_path / "again")
    # Three results of 20 MB come to one worker, at 4 MB a second.
    assert makespan(recorded) == pytest.approx(15, rel=0.1)
    assert makespan(again) == pytest.approx(makespan(recorded), rel=0.1)


@by_value
def runs(dask_scheduler: Any = None) -> list[str]:
    """Return the tasks that workers have run, each as often as it ran; runs on the scheduler."""
    log = dask_scheduler.transition_log
    return [str(key) for key, *states in log if states[:2] == ["processing", "memory"]]


def test_nothing_is_released_before_what_needs_it_is_submitted(tmp_path: Path) -> None:
    """On more workers results come at once that came one after the other; tasks ran twice."""
    path = tmp_path / "work.schedprof"
    with at_work(VirtualCluster, duration="20ms") as client, record_workload(client, path):
        level = client.map(inc, range(16), pure=False)
        while len(level) > 1:
            client.sync(asyncio.sleep, 0.05)
            level = client.map(inc, level[::2], pure=False)
        wait(level)
    with at_work(VirtualCluster, 8, workload=str(path)) as client:
        replay(client, path)
        ran = Counter(client.run_on_scheduler(runs))
    assert len(ran) == 31
    assert set(ran.values()) == {1}


def test_what_was_cancelled_is_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "work.schedprof"
    with at_work(VirtualCluster, duration="1s") as client, record_workload(client, path):
        stuck = client.map(inc, range(5), pure=False, resources={"GPU": 1})
        ends = client.map(inc, stuck, pure=False)
        wait(client.map(inc, range(5), pure=False))
        client.cancel(stuck)
        wait(client.submit(inc, 0, pure=False))  # it comes after the message
        del ends
    recorded = read_file(str(path))
    assert max(len(release.tasks) for release in recorded.releases) == 10
    assert len(replayed(VirtualCluster, path, tmp_path / "again").results) == 6


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_actors_are_actors_again(tmp_path: Path, kind: type[OwnCluster]) -> None:
    """The scheduler spreads actors by their number, and moves none of them."""
    path = tmp_path / "work.schedprof"
    with at_work(kind, duration="10ms") as client, record_workload(client, path):
        kept = client.map(inc, range(8), actor=True)
        wait(client.map(inc, kept, pure=False))
    recorded, again = read_file(str(path)), replayed(kind, path, tmp_path / "again")
    annotations = [dict(task.annotations) for task in recorded.tasks()]
    assert annotations == [{"actor": True}] * 8 + [{}] * 8
    assert [dict(task.annotations) for task in again.tasks()] == annotations
    assert len(again.results) == 16


def test_a_task_fails_as_often_as_it_did_before_it_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "work.schedprof"
    options = {"duration": "uniform(100ms, 1s)", "failures": "0.4"}
    with at_work(VirtualCluster, **options) as client, record_workload(client, path):
        wait(client.map(inc, range(40), pure=False, retries=2))
    recorded = read_file(str(path)).results
    again = replayed(VirtualCluster, path, tmp_path / "again").results
    assert {len(result.failed) for result in recorded.values()} == {0, 1, 2}
    assert {result.is_error for result in recorded.values()} == {False, True}
    ran = [sorted((result.is_error, result.nbytes, *result.failed, result.seconds)
                  for result in run.values()) for run in (recorded, again)]  # fmt: skip
    assert [run[:2] for run in ran[1]] == [run[:2] for run in ran[0]]
    took = [[seconds for run in runs for seconds in run[2:]] for runs in ran]
    assert took[1] == pytest.approx(took[0], abs=1e-5)


@pytest.mark.slow
def test_an_asynchronous_client_replays_the_workload_of_its_cluster(tmp_path: Path) -> None:
    path = tmp_path / "work.schedprof"
    with at_work(SimulatedCluster, 2) as client, record_workload(client, path):
        wait(client.map(inc, range(8), pure=False))
    spec = ClusterSpec("simulated", workers=2, options=(("workload", str(path)),))
    with (
        closing(start(spec, timeout_s=60)) as cluster,
        Control(cluster.address) as control,
        open_scheduler(cluster, control) as scheduler,
    ):

        async def again() -> Any:
            async with scheduler.async_client() as client:
                replaying: Any = replay(client)
                return await replaying

        assert asyncio.run(again()) == 8


MARKED = """
from pytest_schedprof.workloads import replay

def replay_on(scheduler, workers):
    assert replay(scheduler.client) == 8
    threads = scheduler.client.nthreads().values()
    assert [*threads] == [2] * workers

@pytest.mark.schedprof("makespan <= 3s", workload="work.schedprof")
def test_recorded(schedprof_scheduler):
    replay_on(schedprof_scheduler, 4)

@pytest.mark.schedprof("makespan <= 3s", workload="work.schedprof", workers=2)
def test_fewer(schedprof_scheduler):
    replay_on(schedprof_scheduler, 2)

@pytest.mark.schedprof(workload="missing.schedprof")
def test_missing(schedprof_scheduler):
    pass
"""


@pytest.mark.slow
def test_a_marker_brings_the_recorded_workers(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(VirtualCluster(4, timeout_s=60, threads=2, options={"duration": "1s"})) as cluster:
        path = project.path / "work.schedprof"
        with Client(cluster.address) as client, record_workload(client, path):
            wait(client.map(inc, range(8), pure=False))
    options = ("--schedprof=decisions", "--schedprof-cluster=virtual")
    result = project.run_test(MARKED, *options)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        ["*cluster option workload: the workload missing.schedprof cannot be*"]
    )

    # A task takes its recorded second on both sides, of which only one sends tasks ahead.
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    project.is_apart = True
    project.run_directory.rename(project.path / "earlier")
    against = "--schedprof-against=config:distributed.scheduler.worker-saturation=inf"
    project.run(*options, against, "-k", "fewer").assert_outcomes(passed=1, deselected=2)
    (comparison,) = project.result().comparisons
    assert comparison.reasons == ()
    assert comparison.same > 5
