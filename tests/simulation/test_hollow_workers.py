"""Tests of hollow workers under a real scheduler: requests of clients and of the scheduler."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import Any

import psutil
import pytest
from at_work import PATIENCE_S, at_work, by_value
from distributed import Client, as_completed, wait
from support import wait_for

from pytest_schedprof.clusters.own import SimulatedCluster
from pytest_schedprof.virtual.executor import Placeholder


@by_value
def inc(x: int) -> int:
    raise AssertionError("nobody computes anything")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    cluster = SimulatedCluster(8, timeout_s=PATIENCE_S)
    yield cluster
    assert "know nothing of" not in cluster._children[0].log.read_text()
    cluster.close()


def test_tasks_with_dependencies_end_and_give_placeholders(client: Client) -> None:
    ones = client.map(inc, range(20), pure=False)
    total = client.submit(inc, client.submit(sum, ones), pure=False)
    placeholder: Any = total.result(timeout=PATIENCE_S)
    assert placeholder == Placeholder(total.key, 28)
    assert all(future.done() for future in ones)
    assert client.gather(ones) == [Placeholder(future.key, 28) for future in ones]
    assert {future.key for future in as_completed(ones)} == {future.key for future in ones}


def test_what_is_scattered_comes_back_as_it_was(client: Client) -> None:
    client.amm.stop()  # every other second it drops unneeded copies
    (future,) = client.scatter([["anything", 2.5, None]], broadcast=True)
    assert future.result(timeout=PATIENCE_S) == ["anything", 2.5, None]
    assert len(client.who_has([future])[future.key]) == 8
    client.amm.start()
    wait(client.submit(inc, future), timeout=PATIENCE_S)


def test_what_is_asked_of_workers_is_answered(client: Client) -> None:
    assert len(client.run(os.getpid)) == 8
    versions: Any = client.get_versions()
    assert len(versions["workers"]) == 8
    assert client.profile() is not None
    assert len(client.has_what()) == 8


def test_what_functions_ask_of_a_worker_is_there(client: Client) -> None:
    (one, *_), (future,) = client.nthreads(), client.scatter([1])
    held = client.run(lambda dask_worker: len(dask_worker.data))
    assert sum(held.values()) == len(client.who_has([future])[future.key])
    assert client.run(lambda dask_worker: dask_worker.contact_address)[one] == one
    assert len({*client.run(lambda dask_worker: dask_worker.id).values()}) == 8
    client.run(look_later, workers=[one], wait=False)
    wait_for(lambda: client.run(seen_later, workers=[one])[one], "the coroutine to run")


@by_value
async def look_later(dask_worker: Any) -> None:
    dask_worker.has_looked = dask_worker.loop.asyncio_loop is not None


@by_value
def seen_later(dask_worker: Any) -> bool:
    return getattr(dask_worker, "has_looked", False)


def test_workers_send_heartbeats_again_and_again(client: Client) -> None:
    """Otherwise, the scheduler considers them dead after five minutes and restarts all work."""

    def last_seen(dask_scheduler: Any) -> list[float]:
        return [worker.last_seen for worker in dask_scheduler.workers.values()]

    once = max(client.run_on_scheduler(last_seen))
    wait_for(lambda: min(client.run_on_scheduler(last_seen)) > once, "heartbeats of all")
    twice = max(client.run_on_scheduler(last_seen))
    wait_for(lambda: min(client.run_on_scheduler(last_seen)) > twice, "more of them")


def test_worker_that_cannot_tell_that_it_lives_leaves() -> None:
    with at_work(SimulatedCluster, 4) as client:
        first, *others = client.nthreads()
        client.run(break_heartbeat, workers=[first])
        wait_for(lambda: list(client.nthreads()) == others, "it to leave")


@by_value
def break_heartbeat(dask_worker: Any) -> None:
    dask_worker.executor.executing = None


def test_released_results_are_forgotten(client: Client) -> None:
    futures = client.map(inc, range(50), pure=False)
    wait(futures)
    del futures
    wait_for(
        lambda: not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)),
        "the scheduler to forget them",
    )
    wait_for(
        lambda: not any(client.run(lambda dask_worker: len(dask_worker.state.tasks)).values()),
        "workers to forget them",
    )


@pytest.mark.slow
def test_work_is_stolen_and_both_answers_are_given() -> None:
    """Long tasks are on one worker: running ones cannot be stolen, waiting ones can."""
    with at_work(SimulatedCluster, 2, duration="200ms") as client:
        first = next(iter(client.nthreads()))
        futures = client.map(inc, range(20), pure=False, workers=first, allow_other_workers=True)
        wait(futures, timeout=PATIENCE_S)
        assert client.run_on_scheduler(stolen) > 0


@by_value
def stolen(dask_scheduler: Any) -> int:
    """Number of confirmed steals."""
    events = [event for _, event in dask_scheduler.get_events("stealing")]
    flat = [part for event in events for part in (event if isinstance(event, list) else [event])]
    return sum("confirm" in str(part[0]) or part[0] == "confirm" for part in flat)


def test_results_have_sizes_and_transfers_are_accounted() -> None:
    with at_work(SimulatedCluster, 2, nbytes="10MB", bandwidth="1GB") as client:
        one, other = client.nthreads()
        x = client.submit(inc, 1, workers=one)
        y = client.submit(inc, x, workers=other)
        wait(y)
        assert sum(client.nbytes().values()) == 2 * 10**7
        who = client.who_has([x])[x.key]
        assert set(who) == {one, other}
        count = client.run(lambda dask_worker: dask_worker.state.transfer_incoming_count_total)
        assert count == {one: 0, other: 1}


def status_of(client: Client, address: str) -> str:
    return str(
        client.run_on_scheduler(
            lambda dask_scheduler: dask_scheduler.workers[address].status.name,
        )
    )


def test_workers_pause_resume_and_retire() -> None:
    with at_work(SimulatedCluster, 2) as client:
        one, other = client.nthreads()
        client.run(lambda dask_worker: dask_worker.pause(), workers=[one])
        wait_for(lambda: status_of(client, one) == "paused", "the scheduler to hear of it")
        futures = client.map(inc, range(20), pure=False)
        wait(futures)  # a paused worker gets no task until it runs again
        assert {*chain(*client.who_has(futures).values())} == {other}
        client.run(lambda dask_worker: dask_worker.resume(), workers=[one])
        wait_for(lambda: status_of(client, one) == "running", "the scheduler to hear of it")

        futures += client.map(inc, range(10), pure=False)
        wait(futures)
        assert answers(one)
        client.retire_workers([one])  # it hands over what it has, and leaves
        assert set(client.nthreads()) == {other}
        assert {*chain(*client.who_has(futures).values())} == {other}
        wait_for(lambda: not answers(one), "its socket to be closed")


def answers(address: str) -> bool:
    host, _, port = address.removeprefix("tcp://").partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize("which", [0, -1], ids=["workers", "scheduler"])
def test_nothing_is_left_when_one_side_is_killed(which: int) -> None:
    with closing(SimulatedCluster(5, timeout_s=PATIENCE_S)) as cluster:
        processes = [psutil.Process(child.process.pid) for child in cluster._children]
        os.kill(processes[which].pid, signal.SIGKILL)
        wait_for(lambda: not cluster.is_whole(), "its death to be seen")
    assert not any(process.is_running() for process in processes)


def test_versions_are_compared_again_once_all_workers_are_there(client: Client) -> None:
    def look(dask_scheduler: Any) -> tuple[str, bool]:
        from distributed import versions

        return versions.error_message.__module__, "schedprof-arrival" in dask_scheduler.plugins

    assert client.run_on_scheduler(look) == ("distributed.versions", False)


@pytest.mark.slow
def test_what_a_worker_lost_sight_of_is_found_again() -> None:
    """A worker fetches from one that leaves while another has a copy; it must ask who has it."""
    with at_work(SimulatedCluster, 3, nbytes="100MB", bandwidth="50MB") as client:
        one, other, third = client.nthreads()
        x = client.submit(inc, 1, workers=one, pure=False)
        wait(x)
        y = client.submit(inc, x, workers=third, pure=False)  # takes two seconds to fetch x
        client.replicate([x], workers=[one, other])
        client.retire_workers([one])
        wait(y, timeout=PATIENCE_S)
        assert set(client.who_has([x])[x.key]) <= {other, third}


def test_restarts_bring_all_back_and_leave_no_socket_open() -> None:
    with closing(SimulatedCluster(10, timeout_s=PATIENCE_S)) as cluster:
        process = psutil.Process(cluster._children[0].process.pid)
        with Client(cluster.address) as client:
            counts = []
            for _ in range(7):
                client.restart(timeout=PATIENCE_S)
                counts.append(process.num_fds())
            # One per worker and restart would be 60. A busy machine closes them later.
            wait_for(lambda: process.num_fds() - counts[0] < 30, "sockets to be closed")
            wait(client.map(inc, range(10), pure=False), timeout=PATIENCE_S)
            assert len(client.nthreads()) == 10
