"""Tests of clusters in virtual time: what clients can do there, and that each run is the same."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import distributed.utils
import pytest
from at_work import at_work, by_value, inc, now
from distributed import CancelledError, Client, Event, SchedulerPlugin, as_completed, wait
from hypothesis import given
from hypothesis import strategies as st
from support import Project

from pytest_schedprof.agent.monitoring import monitoring
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.errors import RecordingError, StuckError
from pytest_schedprof.formats.counted import Decided, read_decisions
from pytest_schedprof.model.profile import CostProfile
from pytest_schedprof.virtual.choices import EvenSamples

VIRTUAL = ("--schedprof=decisions", "--schedprof-cluster=virtual", "--schedprof-workers=8")

MIXED = """
import subprocess, sys
import dask.array as da
from distributed import as_completed

@pytest.fixture(params=["first", "alone", "busy"])
def neighbour(request, schedprof_scheduler):
    if request.param != "busy":
        yield
        return
    allowed = os.sched_getaffinity(0)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        processes = [os.getpid(), schedprof_scheduler.pid, busy.pid]
        allow(processes, {min(allowed)})
        try:
            yield
        finally:
            busy.kill()
            allow(processes[:2], allowed)

def allow(processes, processors):
    for process in processes:
        for thread in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(thread), processors)

@pytest.mark.schedprof("makespan <= 60s", cluster_options={"duration": "exponential(50ms)",
    "nbytes": "uniform(1kB, 1MB)"})
def test_it(schedprof_scheduler, neighbour):
    client = schedprof_scheduler.client
    futures = client.map(inc, range(20), pure=False)
    for done, future in enumerate(as_completed(futures)):
        if done == 10:
            extra = client.map(inc, range(10), pure=False)
    client.submit(sum, [*futures, *extra]).result()
    x = da.ones((20, 20), chunks=10)
    (x + x.T).sum().compute()
"""


@pytest.fixture
def cluster() -> Iterator[VirtualCluster]:
    """A cluster of four workers whose tasks take a second each."""
    options = {"duration": "1s", "latency": "0"}
    cluster = VirtualCluster(4, timeout_s=60, options=options)
    yield cluster
    cluster.close()


def decided(project: Project, test: str = "") -> Decided:
    """Return what a test of the project's only run recorded."""
    (file,) = project.run_directory.glob(f"tests/*{test}*/scheduler.decisions.json")
    return read_decisions(file.read_bytes())


@pytest.mark.slow
def test_each_run_is_the_same_also_on_a_busy_machine(project: Project) -> None:
    """Also if all its processes, and one that never waits, share one processor.

    In one session all graphs have the same order of sets. The first test is left out of what the
    client does, which imports and looks up much that later tests find.
    """
    result = project.run_test(MIXED, *VIRTUAL, "--schedprof=counts,decisions")
    result.assert_outcomes(passed=3)
    first, alone, busy = (decided(project, name) for name in ("first", "alone", "busy"))
    assert first == alone == busy
    assert first.figures["transfers"] > 0
    counts = []
    for name in ("alone", "busy"):
        backends = project.results()[f"test_it[{name}]"].backends
        (costs,) = (backend.costs for backend in backends if backend.backend == "counts")
        assert costs
        whole = {metric: cost for metric, cost in costs.whole.items() if metric != "cpu"}
        counts.append((costs.functions, whole))
    assert counts[0] == counts[1]  # of every function


def test_decisions_are_refused_where_time_is_real(project: Project) -> None:
    body = """
@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    pass

@pytest.mark.schedprof
def test_in_this_process():
    from distributed import Client
    with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
        client.submit(inc, 1).result()
"""
    result = project.run_test(body, "--schedprof=decisions", "--schedprof-workers=1")
    result.assert_outcomes(errors=0, failed=2)
    refusal = "*decisions are exact in virtual time only, and that is not the time of "
    result.stdout.fnmatch_lines([f"{refusal}the scheduler *", f"{refusal}the test's own process*"])
    result.stdout.no_fnmatch_line("*please report it*")


def test_one_recording_of_decisions_at_a_time_and_none_stays(cluster: VirtualCluster) -> None:
    backend = BackendRegistry().make("decisions", rate_hz=100, options={})
    with cluster.open_line(30) as control:
        first = backend.start(control, timeout_s=200)
        with pytest.raises(RecordingError, match="another decisions recording is under way"):
            backend.start(control, timeout_s=200)
        first.abandon(timeout_s=200)
        second = backend.start(control, timeout_s=200)
        with Client(cluster.address) as client:
            wait(client.map(inc, range(4), pure=False))
        costs = backend.read(second.stop(timeout_s=200).content, control.name_places)
        assert isinstance(costs, CostProfile)
        assert set(costs.whole) == set(backend.metrics)
        assert 1 <= costs.whole["makespan"] < 1.1
        assert control.call(attributes) == []


@by_value
def attributes(dask_scheduler: Any = None) -> list[str]:
    """Return what recordings left on the scheduler."""
    return [name for name in vars(dask_scheduler) if "schedprof" in name]


@contextmanager
def traced() -> Iterator[None]:
    """Trace this thread, as a debugger or a coverage tool does."""
    before, tools = sys.gettrace(), monitoring()
    free = [number for number in (3, 4) if tools and not tools.get_tool(number)]
    for number in free:
        tools.use_tool_id(number, "somebody")
    if tools is None:
        sys.settrace(lambda *event: None)
    try:
        yield
    finally:
        sys.settrace(before)
        for number in free:
            tools.free_tool_id(number)


@pytest.fixture
def untraced() -> Iterator[None]:
    """Take coverage's tracer from this thread, which before Python 3.12 has the hook of counts."""
    before = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(before)


@pytest.mark.usefixtures("client", "untraced")
def test_a_client_that_cannot_be_counted_is_told_and_a_start_that_fails_beside_it_leaves_nothing(
    cluster: VirtualCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = BackendRegistry().make("counts", rate_hz=100, options={})
    closed = ThreadPoolExecutor()
    closed.shutdown()
    with cluster.open_line(30) as control:
        with traced():
            raw = backend.start(control, timeout_s=200).stop(timeout_s=200)
        (warning,) = raw.warnings
        assert "did not see the client beside" in warning
        assert "in the test's process: run these tests without it (pytest --no-cov" in warning
        assert backend.start(control, timeout_s=200).stop(timeout_s=200).warnings == ()

        with monkeypatch.context() as patch:
            patch.setattr(distributed.utils, "_offload_executor", closed)
            with pytest.raises(RuntimeError, match="after shutdown"):
                backend.start(control, timeout_s=200)
        assert control.call(attributes) == []
        assert backend.start(control, timeout_s=200).stop(timeout_s=200).warnings == ()


def test_time_goes_by_only_while_the_test_waits(client: Client) -> None:
    start = now()
    futures = client.map(inc, range(8), pure=False)
    assert now() == start
    wait(futures)
    assert 2 <= now() - start < 2.1  # eight tasks of a second on four workers


def test_timeouts_are_virtual(client: Client) -> None:
    start = now()
    future = client.submit(inc, 1, pure=False)
    with pytest.raises(TimeoutError):
        future.result(timeout=0.5)
    assert 0.5 <= now() - start < 0.6
    with pytest.raises(TimeoutError):
        wait(client.map(inc, range(400), pure=False), timeout=50)
    assert 50.5 <= now() - start < 51


def test_time_passes_while_the_test_polls(client: Client) -> None:
    future = client.submit(inc, 1, pure=False)
    while not future.done():
        pass
    assert 1 <= now() < 5
    future = client.submit(inc, 1, pure=False)
    while future.status == "pending":
        pass
    assert 2 <= now() < 10
    future = client.submit(inc, 1, pure=False)
    time.sleep(1.5)
    assert future.status == "finished"
    with pytest.raises(ValueError, match="must be non-negative"):
        time.sleep(-1)


def test_time_passes_while_the_test_polls_the_scheduler() -> None:
    with at_work(VirtualCluster, duration="1ms", latency="0") as client:
        future = client.submit(inc, 1, pure=False)
        while not client.who_has([future]).get(future.key):
            pass


@by_value
def lose_patience(dask_scheduler: Any = None) -> None:
    from pytest_schedprof.virtual import loop

    loop.MOST_ROUNDS = 200


def test_however_many_graphs_are_sent_at_one_time_is_no_standstill(client: Client) -> None:
    """The scheduler takes two rounds of its loop for each."""
    client.run_on_scheduler(lose_patience)
    wait([client.submit(inc, 1, pure=False) for _ in range(200)])


def test_who_waits_for_a_thread_or_a_callback_waits_for_the_cluster_or_loses_patience(
    client: Client,
) -> None:
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(client.submit(inc, 1).result()))
    thread.start()
    thread.join()
    assert len(seen) == 1
    called = threading.Event()
    client.submit(inc, 1, pure=False).add_done_callback(lambda future: called.set())
    assert called.wait(100)
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    leave.set()
    thread.join()
    assert not threading.Event().wait(-0.5), "its time is over already"


def test_several_clients_and_what_they_cancel(cluster: VirtualCluster, client: Client) -> None:
    with Client(cluster.address, set_as_default=False) as other:
        theirs = other.map(inc, range(4), pure=False)
        mine = client.map(inc, range(40), pure=False)
        wait(theirs)
        client.cancel(mine)
        assert {future.status for future in mine} == {"cancelled"}
    placeholder: Any = client.submit(inc, 1, pure=False).result()
    assert placeholder.nbytes == 28


def test_a_cancelled_task_keeps_its_thread_until_its_end(client: Client) -> None:
    """As a real one does: a thread cannot be stopped."""
    start = now()
    client.cancel(client.map(inc, range(4), pure=False))
    assert now() - start < 0.1
    client.submit(inc, 1, pure=False).result()
    assert 2 <= now() - start < 2.1


def test_workers_come_again_after_a_restart(client: Client) -> None:
    wait(client.map(inc, range(8), pure=False))
    client.restart()
    assert len(client.nthreads()) == 4
    assert sum(1 for _ in as_completed(client.map(inc, range(8), pure=False))) == 8


def test_data_is_scattered_and_gathered_by_the_scheduler(
    cluster: VirtualCluster, client: Client
) -> None:
    """Also where a client wants connections to the workers."""
    (future,) = client.scatter([[1, 2, 3]])
    assert client.gather(future) == [1, 2, 3]
    with Client(cluster.address, direct_to_workers=True) as direct:
        assert direct.gather(direct.scatter([12, 13])) == [12, 13]
        assert direct.gather(direct.scatter([14], direct=True), direct=True) == [14]


def test_waiting_for_what_cannot_happen_is_an_error(client: Client) -> None:
    """A worker on which no task may run any more is a deadlock of the user's own."""
    with pytest.raises(StuckError, match="no task is left to run"):
        Event("never", client=client).wait()
    future = client.submit(inc, 1, key="alone", workers=["nobody"], pure=False)
    with pytest.raises(StuckError, match="'alone' is no-worker"):
        wait([*client.map(inc, range(4), pure=False), client.submit(inc, future)])
    with pytest.raises(TimeoutError):
        future.result(timeout="1m")
    with pytest.raises(StuckError, match="'alone' is no-worker"):
        future.result(timeout="1h")


def test_an_assertion_of_other_code_breaks_no_state(client: Client) -> None:
    with pytest.raises(Exception, match=r"^AssertionError\('Combination not supported"):
        client.run(inc, 1, wait=False)
    with pytest.raises(AssertionError, match="of a plugin"):
        client.register_plugin(Refusing())
    wait(client.submit(inc, 1, pure=False))


@by_value
class Refusing(SchedulerPlugin):
    async def start(self, scheduler: Any) -> None:
        raise AssertionError("of a plugin")


def test_a_killed_scheduler_is_noticed(cluster: VirtualCluster, client: Client) -> None:
    futures = client.map(inc, range(8), pure=False)
    client.submit(inc, 1, pure=False).result()
    os.kill(cluster.pid, signal.SIGKILL)
    with pytest.raises(CancelledError):
        wait(futures + client.map(inc, range(8), pure=False))
    assert cluster.death(60)


SESSION = """
import asyncio
from pytest_schedprof.errors import ClusterError

@pytest.mark.schedprof("makespan <= 10.02s", "makespan <= 10s", "transferred <= 0B",
    cluster_options={"duration": "1s"}, workers=1)
def test_limits(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(10), pure=False))

@pytest.mark.schedprof(cluster_options={"duration": "1s"}, workers=4)
def test_planned(schedprof_scheduler):
    scheduler = schedprof_scheduler
    scheduler.plan(2.5, "kill", 1)
    scheduler.plan(2.5, "pause", "2")
    scheduler.plan(4.5, "resume", 2)
    scheduler.plan(5.5, "arrive", "late")
    futures = scheduler.client.map(inc, range(40), pure=False)
    wait(futures)
    assert {future.status for future in futures} == {"finished"}
    assert len(scheduler.workers) == 4
    assert "inproc://worker-late" in scheduler.workers
    with pytest.raises(Exception, match="there is no worker '7'"):
        scheduler.plan(1, "kill", 7)
    with pytest.raises(Exception, match="a worker cannot 'explode'; known: kill, pause"):
        scheduler.plan(1, "explode", 0)
    for bad in (-1, float("nan"), float("inf"), "x", None, True):
        with pytest.raises(ClusterError, match="the time must be a number .*, got"):
            scheduler.plan(bad, "kill", 0)
    for bad in (-1, float("nan"), "x"):
        with pytest.raises(ClusterError, match="lasting must be a number .*, got"):
            scheduler.plan(1, "pause", 0, lasting=bad)
    for bad in (None, 1.5, [(1, 2)], [None]):
        with pytest.raises(ClusterError, match="worker must be a name .*, got"):
            scheduler.plan(1, "kill", bad)
    with pytest.raises(ClusterError, match="at most 100000 workers at one time"):
        scheduler.plan(1, "arrive", range(10**12))

@pytest.mark.asyncio
@pytest.mark.schedprof(cluster_options={"duration": "1s"})
async def test_async(schedprof_scheduler):
    begun = time.perf_counter()
    async with schedprof_scheduler.async_client() as client:
        async with schedprof_scheduler.measure():
            await wait(client.map(inc, range(16), pure=False))
        await asyncio.sleep(120)
    assert time.perf_counter() - begun < 120
    begun = time.perf_counter()
    await asyncio.sleep(0.2)  # without a client the loop has its own time again
    assert time.perf_counter() - begun >= 0.19

async def poll(client, is_there, seconds):
    future = client.submit(inc, 1, pure=False)
    while not is_there(future):
        await asyncio.sleep(seconds)

@pytest.mark.asyncio
@pytest.mark.schedprof(cluster_options={"duration": "50ms"})
@pytest.mark.parametrize("number", range(2))
async def test_polling(schedprof_scheduler, number):
    async with schedprof_scheduler.async_client() as client:
        await poll(client, lambda future: future.done(), 0.01)
        await poll(client, lambda future: future.done(), 0)
        await poll(client, lambda future: future.status == "finished", 0)
        time.sleep(0.01)  # stops the loop for real
        await poll(client, lambda future: future.done(), 0.01)
"""


@pytest.mark.slow
def test_a_session_in_virtual_time(project: Project) -> None:
    """Limits are exact, what is planned happens, and coroutines wait, or poll without a pause."""
    result = project.run_test(SESSION, *VIRTUAL)
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*broken: makespan <= 10s*"])
    result.stdout.no_fnmatch_line("*broken: makespan <= 10.02s*")

    planned = decided(project, "test_planned").figures
    assert planned["recomputed"] > 0  # what the killed worker held
    assert 11 < planned["makespan"] < 20  # 10 seconds without faults
    assert 2 <= decided(project, "test_async").figures["makespan"] < 2.1
    one, other = (decided(project, f"test_polling-{number}") for number in (0, 1))
    assert one == other
    assert one.figures["makespan"] < 1


@given(population=st.lists(st.integers(), min_size=11), count=st.integers(1, 10))
def test_samples_of_a_large_list_are_always_the_same(population: list[int], count: int) -> None:
    samples = EvenSamples.sample(population, count)
    assert samples == EvenSamples.sample(population, count)
    assert len(samples) == count
    assert set(samples) <= set(population)
