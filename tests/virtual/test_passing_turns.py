"""Tests of how often the cluster and the test's process pass on the turn."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from distributed import Client, as_completed

from pytest_schedprof.clusters.virtual import VirtualCluster

TASKS = 30
MOST_TURNS = 20
"""Of a task that is submitted when another one has ended; it has needed five."""


@pytest.fixture
def client() -> Iterator[Client]:
    cluster = VirtualCluster(4, timeout_s=60, options={"duration": "uniform(100ms, 500ms)"})
    try:
        with Client(cluster.address) as client:
            yield client
    finally:
        cluster.close()


async def count(dask_scheduler: Any = None) -> None:
    """Count from now on how often the cluster gives its turn away; runs there."""
    turns: Any = asyncio.get_running_loop().turns  # type: ignore[attr-defined]
    give, dask_scheduler.given = turns.give, 0

    def counted(**what: Any) -> None:
        dask_scheduler.given += 1
        give(**what)

    turns.give = counted


def counted(dask_scheduler: Any = None) -> int:
    return int(dask_scheduler.given)


def inc(x: object) -> int:
    return 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what has arrived")
def test_a_message_is_acknowledged_before_the_turn_is_passed_on(client: Client) -> None:
    """By itself a kernel waits with that, and 200 turns were passed on meanwhile."""
    client.run_on_scheduler(count)
    submitted = 8
    running = as_completed(client.map(inc, range(submitted), pure=False))
    for ended in running:
        if submitted < TASKS:
            running.add(client.submit(inc, ended, pure=False))
            submitted += 1
    assert client.run_on_scheduler(counted) < MOST_TURNS * TASKS
