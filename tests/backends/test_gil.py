"""Tests of gil: how long a real scheduler's thread waits for the interpreter's lock."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from distributed import Client, wait

from pytest_schedprof.agent import gil as agent
from pytest_schedprof.backends.builtin.gil import GilBackend
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.clusters.simulated import SimulatedCluster
from pytest_schedprof.clusters.under_test import clean
from pytest_schedprof.errors import BackendUnavailableError, FormatError, RecordingError
from pytest_schedprof.formats.gil import GilFile, read_gil
from pytest_schedprof.gates.limits import parse_limit
from pytest_schedprof.measuring.assessment import assess
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.remote.control import Control

RIVAL = "_rival_of_the_test"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    cluster = SimulatedCluster(4, timeout_s=30)
    yield cluster
    cluster.close()


@pytest.fixture
def control(cluster: SimulatedCluster) -> Iterator[Control]:
    with Control(cluster.address) as control:
        yield control


def backend() -> GilBackend:
    return GilBackend(rate_hz=100, options={})


def inc(number: int) -> int:
    return number + 1


def recorder_of(cluster: SimulatedCluster, control: Control, tasks: int) -> Recorder:
    recorder = Recorder(control, [backend()], 30.0)
    connected = Client(cluster.address, set_as_default=False)
    with connected as client, client.as_current(), recorder.round():
        wait(client.map(inc, range(tasks), pure=False), timeout=100)
    assert recorder.troubles == []
    clean(control)
    return recorder


def recorded(cluster: SimulatedCluster, control: Control) -> GilFile:
    ((segment,),) = recorder_of(cluster, control, 2000).rounds
    return read_gil(segment.raw["gil"].content)


def compete(dask_scheduler: Any = None) -> None:
    """Start a thread that takes the GIL whenever it can."""
    is_over = threading.Event()

    def rival() -> None:
        while not is_over.is_set():
            pass

    thread = threading.Thread(target=rival, daemon=True)
    thread.start()
    setattr(dask_scheduler, RIVAL, (thread, is_over))


def give_way(dask_scheduler: Any = None) -> None:
    thread, is_over = dask_scheduler.__dict__.pop(RIVAL)
    is_over.set()
    thread.join()


@pytest.mark.slow
def test_a_thread_that_takes_the_lock_is_told(cluster: SimulatedCluster, control: Control) -> None:
    alone = recorded(cluster, control)
    control.call(compete)
    try:
        disturbed = recorded(cluster, control)
    finally:
        control.call(give_way)
    assert min(alone.working, disturbed.working) > 50
    # Half of the time, but less on a busy machine: a thread that waits for a core counts as work.
    assert disturbed.share > max(0.1, 3 * alone.share), (alone, disturbed)
    assert not alone.early
    assert psutil.Process(cluster.pid).children(recursive=True) == []


def test_few_samples_decide_nothing(cluster: SimulatedCluster, control: Control) -> None:
    recorder_of(cluster, control, 2)  # the first task takes long
    recorder = recorder_of(cluster, control, 2)
    (result,) = assess(recorder, [parse_limit("gil_wait <= 25%")], None).backends
    (limit,) = result.limits
    assert limit.verdict is Verdict.INCONCLUSIVE
    assert limit.note.endswith("at least 50 are needed: give the scheduler more work")


def test_one_at_a_time_and_not_where_the_test_runs(control: Control) -> None:
    recording = backend().start(control, timeout_s=30)
    with pytest.raises(RecordingError, match="another gil recording is under way"):
        backend().start(control, timeout_s=30)
    recording.abandon(timeout_s=30)
    here = InProcess()
    with pytest.raises(BackendUnavailableError, match="workers and clients"):
        backend().start(here, timeout_s=5)
    here.leave(())


def test_the_interpreters_variables_are_found() -> None:
    begin, end = agent.runtime() or (0, 0)
    place = ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime")
    assert begin == ctypes.addressof(place) < end < begin + 2**24


@pytest.mark.parametrize("content", [b"{}", b"[]", b'{"schedprof_gil":1,"working":-1}', b"\xff"])
def test_other_content_is_refused(content: bytes) -> None:
    with pytest.raises(FormatError, match="not a file of gil"):
        read_gil(content)
