"""Tests of what makes thousands of virtual workers cheap, and must not change what they do."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import Any

import pytest
from at_work import at_work, by_value

from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.virtual.behaviour import LateRandom, make_state
from pytest_schedprof.virtual.loop import VirtualLoop
from pytest_schedprof.virtual.node import in_order_of_sets
from pytest_schedprof.virtual.worker import name_for_scheduler


def test_a_late_generator_gives_the_same_numbers() -> None:
    late, own = LateRandom(0), random.Random(0)
    assert [late.random() for _ in range(5)] == [own.random() for _ in range(5)]


def test_state_machines_share_nothing_that_is_written() -> None:
    one, other = make_state("inproc://a", 1), make_state("inproc://b", 1)
    one.log.append(("seen",))
    assert (len(one.log), len(other.log)) == (0, 0)
    assert one.tasks is not other.tasks


@pytest.mark.parametrize("count", [1, 1_000, 10_000])
def test_workers_join_in_the_order_of_the_schedulers_sets(count: int) -> None:
    names = in_order_of_sets(count)
    assert sorted(map(int, names)) == list(range(count))
    ids = [name_for_scheduler(name) for name in names]
    places = {server_id: place for place, server_id in enumerate(set(ids))}
    steps = [abs(places[one] - places[next_]) for one, next_ in pairwise(ids)]
    near = sum(step <= 2 for step in steps)
    assert near >= 0.7 * len(steps)  # one after another, apart from collisions in the table


def test_cancelled_timers_are_forgotten() -> None:
    loop = VirtualLoop()
    timers = [loop.call_later(1_000 + number, print) for number in range(1_000)]
    seen: list[float] = []
    loop.call_later(2_500, lambda: seen.append(loop.now))
    for timer in timers:
        timer.cancel()
    assert len(list(loop.awaited())) == 1
    assert len(loop._timers) < 300
    loop.run_until_complete(asyncio.sleep(2_600))
    assert len(seen) == 1
    loop.close()


@by_value
def machines(dask_scheduler: Any) -> tuple[int, int]:
    """Return the number of workers, and of those that have a state machine."""
    world = dask_scheduler.extensions["schedprof-virtual"]
    hollow = world.workers._server.hollow.values()
    return len(hollow), sum(worker.has_state for worker in hollow)


def test_a_worker_without_work_has_no_state_machine() -> None:
    with at_work(VirtualCluster, 200, duration="60s") as client:
        assert client.run_on_scheduler(machines) == (200, 0)
        client.submit(str, 1).result()  # a minute, with many heartbeats of each worker
        assert client.run_on_scheduler(machines) == (200, 1)
