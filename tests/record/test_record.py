"""Tests of recorded workloads: what is in them, and that replays do the same work."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import dask.config
import numpy as np
import pytest
from at_work import at_work, by_value, inc
from dask.base import annotate
from disks import small_disk
from distributed import Client, Scheduler, wait
from support import wait_for

from pytest_schedprof.cli.main import main
from pytest_schedprof.clusters.own import OwnCluster, SimulatedCluster
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.errors import ArtifactError, ClusterError, SettingsError
from pytest_schedprof.formats.workload import read_workload
from pytest_schedprof.model.workload import Workload
from pytest_schedprof.replay import dask_setup, writing
from pytest_schedprof.replay import hearing as rows
from pytest_schedprof.replay.fetching import begin, record_workload
from pytest_schedprof.replay.writing import Outbox, RecordingFile
from pytest_schedprof.workloads import WORKLOADS, replay

SIZE = 100
SHAPES = (
    "many_tiny_tasks",
    "tree_reduction",
    "all_to_all",
    "annotated_tasks",
    "aliases",
    "p2p_rechunk",
)
OPTIONS = {"duration": "exponential(50ms)", "nbytes": "uniform(1kB, 1MB)"}


@by_value
async def transitions(dask_scheduler: Any = None) -> int:
    """Return how many there were when all tasks are forgotten."""
    while dask_scheduler.tasks:
        await asyncio.sleep(0.01)
    return int(dask_scheduler.transition_counter)


def counted(client: Client, work: Callable[[], object]) -> int:
    """Return how many transitions some work takes."""
    before = client.run_on_scheduler(transitions)
    work()
    return int(client.run_on_scheduler(transitions) - before)


@by_value
def decide_by_graphs_alone(dask_scheduler: Any = None) -> None:
    """Steal and queue nothing, which on a busy machine takes further transitions."""
    dask_scheduler.extensions["stealing"].stop()
    dask_scheduler.WORKER_SATURATION = math.inf


def read(path: Path) -> Workload:
    return read_workload(path.read_bytes())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A workload of several shapes, recorded in virtual time, and its transitions."""
    path = tmp_path_factory.mktemp("recorded") / "work.schedprof"

    def work() -> None:
        for shape in SHAPES:
            WORKLOADS[shape](client, SIZE)

    with at_work(VirtualCluster, **OPTIONS) as client, record_workload(client, path):
        client.run_on_scheduler(decide_by_graphs_alone)
        return path, counted(client, work)


@pytest.mark.slow
def test_a_task_takes_few_bytes(recorded: tuple[Path, int]) -> None:
    path, _ = recorded
    workload = read(path)
    tasks = list(workload.tasks())
    assert len(tasks) > 4 * SIZE
    assert workload.results.keys() == {task.number for task in tasks}
    assert path.stat().st_size <= 40 * len(tasks)
    assert not workload.is_cut


@pytest.mark.slow
@pytest.mark.parametrize("kind", [VirtualCluster, SimulatedCluster], ids=lambda kind: kind.kind)
def test_a_replay_takes_the_same_transitions(
    recorded: tuple[Path, int], kind: type[OwnCluster]
) -> None:
    path, took = recorded
    tasks = sum(1 for _ in read(path).tasks())
    done: list[int] = []

    def work() -> None:
        done.append(replay(client, path))

    with at_work(kind, workload=str(path)) as client:
        client.run_on_scheduler(decide_by_graphs_alone)
        again = counted(client, work)
    assert done == [tasks]
    assert again == pytest.approx(took, rel=0.02)


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


@by_value
def end_recording(dask_scheduler: Any = None) -> None:
    dask_scheduler.extensions["schedprof-record"].end()


def test_a_recording_that_the_scheduler_ends_is_told(tmp_path: Path) -> None:
    path = tmp_path / "work.schedprof"

    def record() -> None:
        with record_workload(client, path):
            client.run_on_scheduler(end_recording)
            wait_for(lambda: "schedprof-record" not in threads(), "the thread to end")

    with at_work(SimulatedCluster, 1) as client:
        with pytest.raises(ClusterError, match="has ended early: the scheduler ended it"):
            record()
        assert read(path).graphs == []


@by_value
def join_releases_of_seconds() -> None:
    """Do on a scheduler what a fast one does with those of a millisecond."""
    rows.TOGETHER_S = 10.0


def test_no_release_is_recorded_before_a_graph_that_needed_the_result(tmp_path: Path) -> None:
    path = tmp_path / "work.schedprof"
    with at_work(SimulatedCluster, duration="1ms") as client, record_workload(client, path):
        client.run_on_scheduler(join_releases_of_seconds)
        for _ in range(10):
            others = client.map(inc, range(20), pure=False)
            (held,) = client.map(inc, [0], pure=False)
            wait([*others, held])
            del others
            last = client.submit(inc, held, pure=False)
            del held
            wait(last)
    workload = read(path)
    needed = {
        number: graph.time
        for graph in workload.graphs
        for task in graph.tasks
        for number in task.dependencies
    }
    assert len(needed) == 10
    released = {number: release.time for release in workload.releases for number in release.tasks}
    assert len(needed.keys() & released.keys()) >= 9  # the last one after the recording, perhaps
    assert [n for n in needed.keys() & released.keys() if released[n] < needed[n] - 1e-6] == []


def test_what_clients_asked_for_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "work.schedprof"
    with at_work(VirtualCluster, duration="1s", nbytes="1kB") as client:
        (held,) = client.map(inc, [0], pure=False)  # there before the recording
        wait(held)
        with record_workload(client, path):
            with annotate(resources={"GPU": np.int64(1)}, mine="a secret"):
                stuck = client.submit(inc, 1, pure=False)
            first = client.submit(inc, held, priority=7, retries=2, pure=False)
            stuck.release()
            wait([first, client.submit(inc, 2, pure=False)])
    workload = read(path)
    kept = [dict(task.annotations) for task in workload.tasks() if task.annotations]
    assert {"resources": {"GPU": 1.0}} in kept
    assert {"priority": 7, "retries": 2} in kept
    assert "secret" not in repr(workload)
    (task,) = (task for task in workload.tasks() if task.annotations.get("priority"))
    (source,) = task.dependencies
    assert workload.results[source].seconds == 0  # it held the result already
    assert workload.results[task.number].seconds == pytest.approx(1)
    assert workload.results[task.number].nbytes == 1000
    (release,) = workload.releases
    assert [len(release.tasks), release.client] == [1, 0]
    assert [event.has_joined for event in workload.workers] == [True] * 4


def test_a_part_can_be_replayed(recorded: tuple[Path, int]) -> None:
    path, _ = recorded
    joins = [task for task in read(path).tasks() if task.group.prefix == "join"]
    assert joins
    with at_work(VirtualCluster, workload=str(path)) as client:
        assert replay(client, path, only="join") == len(joins)
        assert replay(client, path, until=0.0) == 0


def test_names_can_be_hidden_and_replayed(tmp_path: Path) -> None:
    path = tmp_path / "work.schedprof"
    with at_work(VirtualCluster) as client, record_workload(client, path, anonymous=True):
        stuck = client.map(inc, range(3), pure=False, resources={"secret": 1})  # nobody has it
        wait(client.map(inc, range(5), pure=False))
        client.cancel(stuck)
    recorded = read(path)
    assert not recorded.begun
    (prefix,) = {task.group.prefix for task in recorded.tasks()}
    assert prefix != "inc"
    ((resource, amount),) = {
        item for task in recorded.tasks() for item in task.annotations.get("resources", {}).items()
    }
    assert (resource != "secret", amount) == (True, 1)
    with at_work(VirtualCluster, workload=str(path)) as client:
        assert replay(client, path) == 8


def test_a_file_is_readable_up_to_its_last_block(
    recorded: tuple[Path, int], tmp_path: Path
) -> None:
    path, _ = recorded
    content = path.read_bytes()
    whole = read(path)
    for cut in (len(content) - 1, len(content) // 2, 30):
        part = read_workload(content[:cut])
        assert part.is_cut
        assert part.graphs == whole.graphs[: len(part.graphs)]
    with pytest.raises(ArtifactError, match="no recorded workload"):
        read_workload(b"something else")


def test_what_cannot_be_recorded_or_replayed_is_refused(tmp_path: Path) -> None:
    with at_work(VirtualCluster) as client:
        with pytest.raises(SettingsError, match="needs the path"):
            replay(client)
        with record_workload(client, tmp_path / "one"):
            with pytest.raises(ClusterError, match="already"):
                record_workload(client, tmp_path / "two").__enter__()
            assert not (tmp_path / "two").exists()
            with pytest.raises(SettingsError, match="File exists"):
                record_workload(client, tmp_path / "one").__enter__()


@pytest.mark.slow
def test_the_command_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "work.schedprof"
    with closing(SimulatedCluster(2, timeout_s=60)) as cluster:
        assert main(["record", cluster.address, "-o", str(path), "--seconds", "0.5"]) == 0
        assert f"{path}: 0 graphs, 0 tasks" in capsys.readouterr().out


PRELOADED = (sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1",
             "--port", "0", "--no-dashboard", "--preload", "pytest_schedprof.replay")  # fmt: skip


@contextmanager
def preloaded(path: Path, **options: str) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """A scheduler of the command line that records; yields its process, address and log."""
    settings = {"path": str(path), **options}
    environment = {
        **os.environ,
        **{f"DASK_SCHEDPROF__RECORD__{name.upper()}": value for name, value in settings.items()},
    }
    process = subprocess.Popen(PRELOADED, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    log: list[str] = []
    for line in process.stderr:
        log.append(line)
        if "the workload" in line:
            break
    (address,) = (line.split()[-1] for line in log if "Scheduler at:" in line)
    rest = threading.Thread(target=lambda: log.extend(process.stderr or ()))
    rest.start()
    try:
        yield process, address, log
    finally:
        process.kill()
        process.wait()
        rest.join()
        process.stderr.close()


@by_value
def interval(dask_scheduler: Any = None) -> float:
    """Return after how many milliseconds the recorder writes; runs on the scheduler."""
    return float(dask_scheduler.extensions["schedprof-record"].flushing.callback_time)


def released(workload: Workload) -> int:
    return sum(len(release.tasks) for release in workload.releases)


@pytest.mark.slow
def test_a_killed_scheduler_loses_the_last_second_at_most(tmp_path: Path) -> None:
    """The recorder writes releases, as it does ends of tasks, only now and then."""
    path = tmp_path / "work.schedprof"
    with preloaded(path, anonymous="True") as (process, address, _), Client(address) as client:
        for number in range(10):
            client.submit(inc, number, pure=False).release()
        wait_for(lambda: released(read(path)) == 10, "the recorder to write releases")
        assert client.run_on_scheduler(interval) < 1000
        process.send_signal(signal.SIGKILL)
        process.wait()
    workload = read(path)
    assert sum(1 for _ in workload.tasks()) == released(workload) == 10
    assert "inc" not in {task.group.prefix for task in workload.tasks()}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few hundred kilobytes."""
    with small_disk(tmp_path / "small", kilobytes=200) as place:
        yield place


@by_value
async def wait_for_the_end(dask_scheduler: Any = None) -> bool:
    """Wait until the recorder has taken itself out; say whether the scheduler knows it still."""
    recorder = dask_scheduler.extensions["schedprof-record"]
    while not recorder.is_over:
        await asyncio.sleep(0.01)
    return "schedprof-record" in dask_scheduler.plugins


@by_value
def have_patience(seconds: float) -> None:
    """Let a recording wait so long for a client that fetches it; runs on the scheduler."""
    writing.PATIENCE_S = seconds


def test_a_recording_that_nobody_fetches_ends_and_another_one_can_begin(tmp_path: Path) -> None:
    path = tmp_path / "work.schedprof"
    with at_work(SimulatedCluster, 1) as client:
        assert client.run_on_scheduler(begin, False) == ""  # as of a client that was killed
        client.run_on_scheduler(have_patience, -1.0)
        assert not client.run_on_scheduler(wait_for_the_end)
        client.run_on_scheduler(have_patience, 600.0)
        with record_workload(client, path):
            wait(client.map(inc, range(3), pure=False))
    assert sum(1 for _ in read(path).tasks()) == 3


def test_a_block_that_cannot_be_packed_ends_the_recording() -> None:
    outbox = Outbox()
    outbox.write({"kind": object()})
    wait_for(outbox.is_idle, "the block to be refused")
    with pytest.raises(TypeError, match="can not serialize"):
        outbox.check()
    outbox.close()


def test_a_full_disk_ends_the_recording_and_nothing_else(small: Path) -> None:
    path = small / "work.schedprof"
    with preloaded(path) as (_, address, log), Client(address) as client:
        stuck = client.map(inc, range(10), pure=False)
        client.run_on_scheduler(wait_for_blocks)
        _fill(small / "filler")
        for _ in range(100):  # more blocks than the file's last page has room for
            stuck += client.map(inc, range(5), pure=False)
        assert not client.run_on_scheduler(wait_for_the_end)
        client.run_on_scheduler(wait_for_tasks, 510)
        assert any("has ended early: OSError: [Errno 28] No space left" in line for line in log)
    workload = read(path)
    assert 10 <= sum(1 for _ in workload.tasks()) < 510
    assert not workload.is_cut


def test_no_empty_file_is_left_on_a_full_disk(small: Path) -> None:
    _fill(small / "filler")
    with pytest.raises(OSError, match="No space left"):
        RecordingFile(small / "work.schedprof")
    assert list(small.glob("work*")) == []


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        _write_for_ever(file)


def _write_for_ever(file: FileIO) -> None:
    while True:
        file.write(b"x" * 1024)


@by_value
async def wait_for_tasks(number: int, dask_scheduler: Any = None) -> None:
    """Wait until the scheduler has taken in so many."""
    while len(dask_scheduler.tasks) < number:
        await asyncio.sleep(0.01)


@by_value
async def wait_for_blocks(dask_scheduler: Any = None) -> None:
    """Wait until there are tasks, and the recorder's thread has nothing left to write."""
    writer = dask_scheduler.extensions["schedprof-record"].writer
    while not (dask_scheduler.tasks and writer.is_idle()):
        await asyncio.sleep(0.01)


def test_a_name_of_digits_is_a_name_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def record() -> None:
        async with Scheduler(
            host="127.0.0.1", port=0, dashboard=False, dashboard_address="127.0.0.1:0"
        ) as scheduler:
            dask_setup(scheduler)

    monkeypatch.chdir(tmp_path)
    with dask.config.set({"schedprof.record.path": 20261123}):  # as dask reads a variable
        asyncio.run(record())
    assert read(tmp_path / "20261123").graphs == []


def test_a_scheduler_starts_though_it_cannot_record(tmp_path: Path) -> None:
    whole = tmp_path / "missing" / "work"
    with preloaded(whole) as (_, address, log), Client(address) as client:
        assert client.run_on_scheduler(transitions) == 0
    (line,) = (line for line in log if " schedprof: " in line)
    assert f"the workload is not recorded into {whole}: " in line
    assert "No such file or directory" in line
