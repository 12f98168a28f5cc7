"""Tests of targets beside the scheduler: workers and client, observed by real profilers."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import dask.distributed
import psutil
import pytest
from support import wait_for

from pytest_schedprof.agent import recordings
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control
from pytest_schedprof.control.targets import find_targets
from pytest_schedprof.errors import RecordingError
from pytest_schedprof.measuring.recorder import Recorder

BACKENDS = ("cputime", "memray", "pyspy")
EVERYTHING = ("scheduler", "workers", "client")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalProcesses]:
    """A cluster with two workers in one process and the scheduler in another."""
    cluster = LocalProcesses(2, timeout_s=30)
    yield cluster
    cluster.close()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    return BackendRegistry().make(request.param, rate_hz=200, options={})


@pytest.fixture
def other_worker(cluster: LocalProcesses, control: Control) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in a process of its own, with a name that could lead out of a directory."""
    arguments = [cluster.address, "--no-nanny", "--name", "../odd", "--no-dashboard"]
    process = subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_worker", *arguments])
    try:
        wait_for(
            lambda: "../odd" in control.call(worker_names), "the worker to come", timeout_s=120
        )
        yield process
    finally:
        process.kill()
        process.wait()
        wait_for(lambda: "../odd" not in control.call(worker_names), "the worker to be gone")


def worker_names(dask_scheduler: Any = None) -> list[str]:
    return [worker.name for worker in dask_scheduler.workers.values()]


def busy_here(dask_worker: Any = None) -> list[bytearray]:
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    return [bytearray(10_000_000)]


def busy_there(dask_worker: Any = None) -> int:
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    dask_worker.held = bytearray(10_000_000)
    return 0


@pytest.mark.slow
def test_each_process_is_observed_once_and_by_itself(control: Control, backend: Backend) -> None:
    recorder = Recorder(control, [backend], 30.0, targets=EVERYTHING)
    with recorder.round():
        held = busy_here()
        control.call_workers(busy_there)
    assert len(held) == 1
    assert recorder.troubles == []
    ((segment,),) = recorder.rounds
    contents = {target.name: raw.content for _, target, raw in segment.elsewhere}
    assert [(target.name, len(target.addresses)) for _, target, _ in segment.elsewhere] == [
        ("client", 0),
        ("worker-0", 2),
    ]
    for target, is_busy_here in (("client", True), ("worker-0", False)):
        assert (b"busy_here" in contents[target]) == is_busy_here
        assert (b"busy_there" in contents[target]) != is_busy_here
    assert b"busy_" not in segment.raw[backend.name].content


def test_number_of_processes_and_addresses_choose_among_workers(
    control: Control, other_worker: subprocess.Popen[bytes]
) -> None:
    def names(*chosen: str) -> list[str]:
        return [target.name for target in find_targets(control, chosen)]

    (other, ours) = find_targets(control, ["workers"])
    assert ours.name == "worker-0"
    assert other.name.startswith("worker-odd-")
    assert names("scheduler") == []
    assert len(names("workers:1")) == 1
    assert len(names("workers:7")) == 2
    assert names(*ours.addresses) == [ours.name]
    assert names("workers:1", *ours.addresses) == [other.name, ours.name]


def full_collections(dask_scheduler: Any = None) -> int:
    import gc

    return int(gc.get_stats()[-1]["collections"])


@pytest.mark.parametrize("is_repeated", [False, True])
def test_rounds_that_are_compared_begin_without_garbage(
    control: Control, is_repeated: bool
) -> None:
    recorder = Recorder(control, [], 10.0, is_repeated=is_repeated)
    before = control.call(full_collections)
    with recorder.round():
        assert control.call(full_collections) - before == is_repeated


def test_address_of_no_worker_is_told(control: Control) -> None:
    recorder = Recorder(control, [], 10.0, targets=["scheduler", "tcp://127.0.0.1:1"])
    with recorder.round():
        pass
    (trouble,) = recorder.troubles
    assert "target 'tcp://127.0.0.1:1' is no worker's; known: 'tcp://" in trouble


@pytest.mark.slow
def test_worker_that_dies_is_one_clear_error_of_each_backend(
    control: Control, other_worker: subprocess.Popen[bytes]
) -> None:
    (other,) = (target for target in find_targets(control, ["workers"]) if "odd" in target.name)
    backends = [BackendRegistry().make(name, rate_hz=200, options={}) for name in BACKENDS]
    recorder = Recorder(control, backends, 30.0, targets=["scheduler", *other.addresses])
    children = []
    with recorder.round():
        children = psutil.Process(other_worker.pid).children(recursive=True)
        other_worker.kill()
    assert len(recorder.troubles) == len(BACKENDS)
    for trouble in recorder.troubles:
        assert f"failed on the worker {other.addresses[0]}" in trouble
    assert recorder.rounds[0][0].raw.keys() == {*BACKENDS}
    wait_for(lambda: not any(child.is_running() for child in children), "py-spy to end")


def held(dask_worker: Any = None) -> bool:
    return hasattr(dask_worker, "_schedprof_recordings")


def look_often(dask_worker: Any = None) -> None:
    """Shorten the interval of checks in the agent's copy in this process."""
    import sys

    for name, module in list(sys.modules.items()):
        if name.startswith("schedprof_agent_") and name.endswith(".recordings"):
            module.WORKERS_CLIENT_CHECK_S = 0.1  # type: ignore[attr-defined]


def test_ends_when_the_client_that_started_it_is_gone(
    cluster: LocalProcesses, control: Control, backend: Backend
) -> None:
    with Control(cluster.address) as gone:
        (target,) = find_targets(gone, ["workers"])
        target.call(recordings.discard, "nothing")  # loads the agent there
        target.call(look_often)
        backend.start(target, timeout_s=30)
        assert target.call(held)
    wait_for(lambda: not any(control.call_workers(held).values()), "the worker to forget it")


def test_two_at_once_on_one_process_are_refused(control: Control, backend: Backend) -> None:
    for target in find_targets(control, EVERYTHING):
        recording = backend.start(target, timeout_s=30)
        with pytest.raises(RecordingError, match=f"under way on {target.label}"):
            backend.start(target, timeout_s=30)
        recording.abandon(timeout_s=30)


def test_processes_that_are_the_schedulers_own_are_no_others() -> None:
    options = {"n_workers": 2, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with (
        dask.distributed.LocalCluster(**options) as cluster,
        Control(cluster.scheduler_address) as control,
    ):
        assert find_targets(control, EVERYTHING) == []


def test_cputime_refuses_the_client_in_another_thread(control: Control) -> None:
    import concurrent.futures

    backend = BackendRegistry().make("cputime", rate_hz=200, options={})
    (client, _) = find_targets(control, EVERYTHING)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        started = pool.submit(backend.start, client, timeout_s=30)
        with pytest.raises(RecordingError, match="from its main thread only"):
            started.result()
