"""counts' own matters: what is exact, what is counted, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from distributed import Client, wait

from pytest_schedprof.backends.counts import CountsBackend
from pytest_schedprof.clusters.control import Control
from pytest_schedprof.clusters.local import LocalCluster
from pytest_schedprof.clusters.under_test import clean
from pytest_schedprof.errors import RecordingError, SettingsError
from pytest_schedprof.model.profile import CostProfile
from pytest_schedprof.recorder import Recorder

TASKS = 300
STATE_MACHINE = "distributed.scheduler:SchedulerState."


def inc(number: int) -> int:
    return number + 1


def record(
    cluster: LocalCluster, control: Control, backend: CountsBackend, rounds: int = 1
) -> list[CostProfile]:
    """What so many identical rounds of independent tasks cost."""
    recorder = Recorder(control, [backend], 30.0)
    for _ in range(rounds):
        with Client(cluster.address) as client, recorder.round():
            wait(client.map(inc, range(TASKS), pure=False))
        clean(control)
    assert recorder.troubles == []
    contents = [each.raw[backend.name].content for (each,) in recorder.rounds]
    return [backend.read(content, control.name_places) for content in contents]


@pytest.fixture(scope="module")
def cluster() -> Any:
    """With workers, unlike that of the other tests here."""
    cluster = LocalCluster(4, timeout_s=30)
    yield cluster
    cluster.close()


def test_identical_rounds_cost_the_state_machine_exactly_the_same(
    cluster: LocalCluster, control: Control
) -> None:
    record(cluster, control, CountsBackend(rate_hz=100, options={}))  # task prefixes are new once
    rounds = record(cluster, control, CountsBackend(rate_hz=100, options={}), rounds=3)
    costs = [
        {name: dict(each) for name, each in profile.functions.items() if STATE_MACHINE in name}
        for profile in rounds
    ]
    assert len(costs[0]) > 20
    # released, waiting, queued, processing, memory, released, forgotten; the first not queued
    assert 5 * TASKS < costs[0][f"{STATE_MACHINE}_transition"]["calls"] < 6 * TASKS
    assert costs[0] == costs[1] == costs[2]


def test_messages_and_bytes_of_the_connections_are_counted(
    cluster: LocalCluster, control: Control
) -> None:
    (profile,) = record(cluster, control, CountsBackend(rate_hz=100, options={}))
    whole = profile.whole
    assert 2 * TASKS <= whole["messages_in"] < 4 * TASKS
    assert 2 * TASKS <= whole["messages_out"] < 4 * TASKS
    assert whole["bytes_in"] > 100 * TASKS
    assert whole["bytes_out"] > 100 * TASKS


def test_what_gets_and_what_sets_a_property_count_together(
    cluster: LocalCluster, control: Control
) -> None:
    backend = CountsBackend(rate_hz=100, options={})
    recording = backend.start(control, timeout_s=10)
    control.call(get_and_set)
    profile = backend.read(recording.stop(timeout_s=10).content, control.name_places)
    assert profile.functions["distributed.scheduler:TaskState.state"]["calls"] // 10 == 15


def get_and_set(dask_scheduler: Any = None) -> None:
    """Fifty times and a hundred times, and a few more that making a task takes."""
    dask_scheduler.new_task("x", None, "released")
    task = dask_scheduler.tasks.pop("x")
    for _ in range(50):
        task.state = task.state
        assert task.state == "released"


def test_calls_alone_are_the_same_calls(cluster: LocalCluster, control: Control) -> None:
    backend = CountsBackend(rate_hz=100, options={"bytecodes": "false"})
    assert "bytecodes" not in backend.metrics
    (profile,) = record(cluster, control, backend)
    (full,) = record(cluster, control, CountsBackend(rate_hz=100, options={}))
    name = f"{STATE_MACHINE}_transition"
    assert profile.functions[name] == {"calls": full.functions[name]["calls"]}


def test_modules_that_limits_name_are_counted_too(cluster: LocalCluster, control: Control) -> None:
    patterns = ["distributed.batched:BatchedSend.send", "distributed.comm.*:TCP.*"]
    backend = CountsBackend(rate_hz=100, options={}, patterns=patterns)
    (profile,) = record(cluster, control, backend)
    assert profile.functions["distributed.batched:BatchedSend.send"]["calls"] >= TASKS
    assert any(name.startswith("distributed.comm.tcp:TCP.") for name in profile.functions)
    settings = backend.settings["modules"]
    assert settings == [
        "distributed.scheduler",
        "distributed.stealing",
        "distributed.batched",
        "distributed.comm.*",
    ]


def test_what_the_clock_calls_is_not_counted(cluster: LocalCluster, control: Control) -> None:
    backend = CountsBackend(rate_hz=100, options={})
    recording = backend.start(control, timeout_s=10)
    control.call(beat_heart)
    profile = backend.read(recording.stop(timeout_s=10).content, control.name_places)
    assert "distributed.scheduler:Scheduler.heartbeat_worker" not in profile.functions
    assert "distributed.scheduler:heartbeat_interval" not in profile.functions
    assert "distributed.scheduler:Scheduler.get_worker_service_addr" in profile.functions


def beat_heart(dask_scheduler: Any = None) -> None:
    """A heartbeat, one that fails, and a call that no clock made."""
    worker = next(iter(dask_scheduler.workers))
    metrics = dict(dask_scheduler.workers[worker].metrics)
    dask_scheduler.heartbeat_worker(address=worker, metrics=metrics, resolve_address=False)
    try:
        dask_scheduler.heartbeat_worker(address=worker, metrics=None, resolve_address=False)
    except (TypeError, KeyError):
        pass
    dask_scheduler.get_worker_service_addr(worker, "none")


def trace(dask_scheduler: Any = None) -> None:
    """As a debugger does, or coverage."""
    import sys

    if hasattr(sys, "monitoring"):
        for number in (3, 4):
            sys.monitoring.use_tool_id(number, "somebody")
    else:
        sys.settrace(lambda *event: None)


def untrace(dask_scheduler: Any = None) -> None:
    import sys

    if hasattr(sys, "monitoring"):
        for number in (3, 4):
            sys.monitoring.free_tool_id(number)
    sys.settrace(None)


def test_another_tracer_is_refused_and_left_alone(control: Control) -> None:
    control.call(trace)
    try:
        with pytest.raises(RecordingError, match="or a debugger, or a coverage tool"):
            CountsBackend(rate_hz=100, options={}).start(control, timeout_s=10)
    finally:
        control.call(untrace)


@pytest.mark.parametrize("options", [{"bytecodes": "perhaps"}, {"modules": 3}, {"depth": 3}])
def test_nonsense_in_an_option_is_told(options: dict[str, Any]) -> None:
    make: Callable[..., CountsBackend] = CountsBackend
    with pytest.raises(SettingsError, match="schedprof: "):
        make(rate_hz=100, options=options)
