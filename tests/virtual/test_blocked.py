"""Tests of tests that wait in a lock: nobody tells of that, and yet the cluster must go on."""

from __future__ import annotations

import asyncio
import multiprocessing
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from at_work import at_work, inc
from distributed import Client, metrics, wait

from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.errors import StuckError
from pytest_schedprof.virtual.blocked import SIGNAL, Place, Watch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of locks")


@pytest.fixture
def client() -> Iterator[Client]:
    """A client of two virtual workers, whose tasks take a second; then no signal is caught."""
    with at_work(VirtualCluster, 2, duration="1s") as client:
        yield client
    assert SIGNAL is not None
    assert signal.getsignal(SIGNAL) == signal.SIG_DFL


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """A pool of one thread, which ends in real time if it is set up before a client."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def address_of(client: Client) -> str:
    return str(client.scheduler_info()["address"])


def test_who_waits_in_a_queue_or_for_a_lock_waits_for_the_cluster(client: Client) -> None:
    """The first time takes half a second, and later ones at the same place less."""
    done: queue.SimpleQueue[str] = queue.SimpleQueue()
    for future in client.map(inc, range(6), pure=False):
        future.add_done_callback(lambda ended: done.put(ended.status))
    assert [done.get() for _ in range(6)] == ["finished"] * 6
    lock = threading.Lock()
    lock.acquire()
    client.submit(inc, 1, pure=False).add_done_callback(lambda future: lock.release())
    lock.acquire()


def test_other_clients_go_on_meanwhile(client: Client) -> None:
    """A coroutine that blocks the loop of its own client, until another client has news."""
    done: queue.SimpleQueue[str] = queue.SimpleQueue()

    async def block() -> str:
        async with Client(address_of(client), asynchronous=True, set_as_default=False):
            client.submit(inc, 1, pure=False).add_done_callback(
                lambda ended: done.put(ended.status)
            )
            return done.get()

    assert asyncio.run(block()) == "finished"


def test_a_look_at_a_thread_keeps_nothing_of_what_it_releases() -> None:
    """What a client does when a future of the test is released is counted in the test's thread."""
    is_watched, released = threading.Event(), threading.Event()
    may_return: list[bool] = []
    released_by: list[int] = []
    watches: list[Watch] = []

    class Thing:
        def __del__(self) -> None:
            released_by.append(threading.get_ident())

    def hold(thing: Thing) -> None:
        is_watched.set()
        while not may_return:  # without a call, so that this is the innermost frame
            pass

    def run() -> None:
        watches.append(Watch(let_it_return))
        hold(Thing())
        released.set()

    def let_it_return(place: Place) -> bool:
        may_return.append(True)
        return released.wait(200)

    thread = threading.Thread(target=run)
    thread.start()
    assert is_watched.wait(200)
    assert watches[0].find() is None
    assert released_by == [thread.ident]
    thread.join()


@pytest.mark.slow
def test_a_lock_that_nobody_releases_and_an_event_that_nobody_sets_are_told(client: Client) -> None:
    """The heartbeats of clients go on for ever, and change nothing."""
    lock = threading.Lock()
    lock.acquire()
    with pytest.raises(StuckError, match="the test waits for something that cannot happen"):
        lock.acquire()
    wait(client.submit(inc, 1, pure=False))

    async def wait_for_ever() -> None:
        async with Client(address_of(client), asynchronous=True, set_as_default=False) as other:
            await other.submit(inc, 1, pure=False)
            await asyncio.Event().wait()

    with pytest.raises(StuckError, match="the test waits for something that cannot happen"):
        asyncio.run(wait_for_ever())
    wait(client.submit(inc, 1, pure=False))


def test_the_clock_stands_still_while_a_job_works_whoever_waits_beside_it(client: Client) -> None:
    future = client.submit(inc, 1, pure=False)
    thread = threading.Thread(target=future.result)

    async def work_until_it_waits() -> float:
        thread.start()
        await asyncio.get_running_loop().run_in_executor(None, subprocess.run, ["sleep", "1"])
        return metrics.time()

    start = metrics.time()
    assert client.sync(work_until_it_waits) == start
    thread.join()


def test_a_thread_of_a_coroutine_may_wait_in_a_lock_too(client: Client) -> None:
    done: queue.SimpleQueue[str] = queue.SimpleQueue()

    async def ask() -> str:
        async with Client(address_of(client), asynchronous=True, set_as_default=False) as other:
            other.submit(inc, 1, pure=False).add_done_callback(lambda ended: done.put(ended.status))
            return await asyncio.to_thread(done.get)

    assert asyncio.run(ask()) == "finished"


def test_jobs_without_a_thread_wait_for_others_that_wait_for_the_cluster(
    pool: ThreadPoolExecutor, client: Client
) -> None:
    """The pool of a loop itself has as many threads as there are cores, and four."""
    futures = client.map(inc, range(3), pure=False)

    async def ask() -> list[Any]:
        async with Client(address_of(client), asynchronous=True, set_as_default=False):
            run: Any = partial(asyncio.get_running_loop().run_in_executor, pool)
            return await asyncio.gather(*(run(future.result) for future in futures))

    assert len(asyncio.run(ask())) == 3


def test_a_job_that_never_begins_does_not_stop_the_clock(
    pool: ThreadPoolExecutor, client: Client
) -> None:
    is_over = threading.Event()

    async def cancel_and_ask() -> None:
        async with Client(address_of(client), asynchronous=True, set_as_default=False) as other:
            run: Any = partial(asyncio.get_running_loop().run_in_executor, pool)
            first, second = run(is_over.wait, 200), run(int)
            second.cancel()
            await asyncio.sleep(0)  # now the pool knows
            is_over.set()
            assert await first
            pool.shutdown(wait=False)
            with pytest.raises(RuntimeError, match="after shutdown"):
                run(int)
            await other.submit(inc, 1, pure=False)

    asyncio.run(cancel_and_ask())


@pytest.fixture
def process() -> Iterator[ProcessPoolExecutor]:
    """A pool of one process, which ends in real time if it is set up before a client."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_the_clock_stands_still_while_another_process_has_the_job(
    process: ProcessPoolExecutor, client: Client
) -> None:
    async def ask() -> None:
        async with Client(address_of(client), asynchronous=True, set_as_default=False) as other:
            start = metrics.time()
            assert await asyncio.get_running_loop().run_in_executor(process, abs, -1) == 1
            assert metrics.time() == start
            await other.submit(inc, 1, pure=False)

    asyncio.run(ask())


def test_the_clock_stands_still_while_the_test_waits_for_something_else(client: Client) -> None:
    client.submit(inc, 1, pure=False).result()
    before = metrics.time()
    subprocess.run([sys.executable, "-c", "import time; time.sleep(1)"], check=True)
    assert metrics.time() == before
