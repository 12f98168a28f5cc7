"""Tests of turns: on a busy machine, where threads and packets are late, and how many there are."""

from __future__ import annotations

import asyncio
import selectors
import socket
import sys
import threading
import types
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from typing import Any

import pytest
from at_work import at_work, by_value, inc, now
from distributed import Client, as_completed

from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.virtual import patches
from pytest_schedprof.virtual.blocked import Waiter
from pytest_schedprof.virtual.conductor import Conductor
from pytest_schedprof.virtual.loop import Turns, have_arrived
from pytest_schedprof.virtual.patches import PATIENCE_S


def test_a_connection_that_is_being_made_is_under_way() -> None:
    """A busy machine may answer late: the clock must not move meanwhile."""
    with ExitStack() as opened:
        server = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        selector = opened.enter_context(selectors.DefaultSelector())
        for _ in range(3):  # more than the queue takes, so that the last one gets no answer
            late = opened.enter_context(socket.socket())
            late.setblocking(False)
            late.connect_ex(server.getsockname())
        assert have_arrived(selector.get_map())
        selector.register(late, selectors.EVENT_WRITE)  # as loops do
        assert not selector.select(0)
        assert not have_arrived(selector.get_map())


def test_a_thread_that_starts_late_is_not_the_clusters_business(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else nothing can happen in the cluster, and it says so at the start of a test."""
    bootstrap: Any = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
    run, may_go_on = threading.Thread.run, 4 * PATIENCE_S

    def late_bootstrap(thread: threading.Thread) -> None:
        patches._REAL_SLEEP(may_go_on)  # the machine runs others first
        bootstrap(thread)

    def late_run(thread: threading.Thread) -> None:
        patches._REAL_SLEEP(may_go_on)
        run(thread)

    cluster = VirtualCluster(1, timeout_s=60, options={})
    try:
        monkeypatch.setattr(threading.Thread, "_bootstrap_inner", late_bootstrap)
        monkeypatch.setattr(threading.Thread, "run", late_run)
        with Client(cluster.address, set_as_default=False):
            assert now() < 0.1
    finally:
        monkeypatch.undo()
        cluster.close()


class LateExecutor(Executor):
    """Its thread is interrupted between the end of a function and that of the job."""

    def __init__(self) -> None:
        self.is_over, self.may_tell = threading.Event(), threading.Event()

    def submit(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
        """Run a function."""
        future: Future[Any] = Future()

        def work() -> None:
            result = function(*args, **keywords)
            self.is_over.set()
            self.may_tell.wait(200)
            future.set_result(result)

        threading.Thread(target=work).start()
        return future


def test_the_turn_stays_until_a_loop_knows_the_result_of_its_thread() -> None:
    """Else the cluster goes on while a client looks up an address, as each one does first."""
    with ExitStack() as opened:
        server = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        other = opened.enter_context(socket.create_connection(server.getsockname()))
        conductor = Conductor(Turns(server.accept()[0]), 0)
        loop, executor = asyncio.new_event_loop(), LateExecutor()
        heard, were_here = Waiter(), list[bool]()

        async def work() -> None:
            conductor.adopt(types.SimpleNamespace(status="running", loop=types.SimpleNamespace()))
            await loop.run_in_executor(executor, int)
            heard.release()

        def look() -> None:
            executor.is_over.wait(200)
            with conductor.changed:
                conductor._pass_turn()  # as each loop does that rests
                were_here.append(conductor._is_here)
            executor.may_tell.set()

        threads = [
            threading.Thread(target=look),
            threading.Thread(target=loop.run_until_complete, args=(work(),)),
        ]
        opened.enter_context(conductor.syncing(is_patient=False, is_expecting=True))
        for thread in threads:
            thread.start()
        assert conductor.wait(heard, 200, is_virtual=False)
        for thread in threads:
            thread.join(200)
        loop.close()
        other.close()
        assert were_here == [True]


def test_a_wait_that_begins_when_the_cluster_has_ended_ends_too() -> None:
    """The test may have looked just before whether the cluster was there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
        conductor = Conductor(Turns(server.accept()[0]), 0)
        conductor._receiver.join(200)
    assert conductor.is_gone
    assert not conductor.wait(Waiter(), None, is_virtual=True)
    assert not conductor.wait(Waiter(), 0.01, is_virtual=True)


TASKS = 30
MOST_TURNS = 20
"""Of a task that is submitted when another one has ended; it has needed five."""


@by_value
async def count(dask_scheduler: Any = None) -> None:
    """Count from now on how often the cluster gives its turn away; runs there."""
    turns: Any = asyncio.get_running_loop().turns  # type: ignore[attr-defined]
    give, dask_scheduler.given = turns.give, 0

    def counted(**what: Any) -> None:
        dask_scheduler.given += 1
        give(**what)

    turns.give = counted


@by_value
def counted(dask_scheduler: Any = None) -> int:
    return int(dask_scheduler.given)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what has arrived")
def test_a_message_is_acknowledged_before_the_turn_is_passed_on() -> None:
    """By itself a kernel waits with that, and 200 turns were passed on meanwhile."""
    with at_work(VirtualCluster, duration="uniform(100ms, 500ms)") as client:
        client.run_on_scheduler(count)
        submitted = 8
        running = as_completed(client.map(inc, range(submitted), pure=False))
        for ended in running:
            if submitted < TASKS:
                running.add(client.submit(inc, ended, pure=False))
                submitted += 1
        assert client.run_on_scheduler(counted) < MOST_TURNS * TASKS
