"""The tests whose sessions `record.py` records: small, so that their files and texts are too."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
from distributed import wait
from distributed.utils_test import gen_cluster

from pytest_schedprof import SchedulerUnderTest

TRANSITION = "distributed.scheduler:SchedulerState._transition"


def inc(number: int) -> int:
    return number + 1


def add_all(numbers: list[int]) -> int:
    return sum(numbers)


def run_tree(scheduler: SchedulerUnderTest, leaves: int) -> None:
    """Add up numbers in groups of four."""
    client = scheduler.client
    numbers = client.map(inc, range(leaves), key=[f"inc-{leaves}-{n}" for n in range(leaves)])
    groups = [numbers[start : start + 4] for start in range(0, leaves, 4)]
    sums = client.map(add_all, groups, key=[f"sum-{leaves}-{n}" for n in range(len(groups))])
    wait(client.submit(add_all, sums, key=f"total-{leaves}"))


def run_many(scheduler: SchedulerUnderTest, rounds: int) -> None:
    for _ in range(rounds):
        wait(scheduler.client.map(inc, range(200), pure=False))


@pytest.mark.schedprof(
    f"bytecodes({TRANSITION}) <= 1200",
    "transitions <= 8",
    backend=["counts", "decisions"],
    cluster="virtual",
    workers=4,
    cluster_options={"duration": "exponential(1s)", "nbytes": "2MB"},
    options={"counts": {"detail": True, "modules": "distributed.scheduler"}},
    rounds=2,
)
def test_tree(schedprof_scheduler: SchedulerUnderTest) -> None:
    run_tree(schedprof_scheduler, 16)


@pytest.mark.schedprof(f"share({TRANSITION}) <= 60%", backend="cputime", rounds=3)
def test_samples(schedprof_scheduler: SchedulerUnderTest) -> None:
    run_many(schedprof_scheduler, 4)


@pytest.mark.schedprof("growth(calls) <= 1.1", backend="counts", rounds=1, scale=[20, 100, 500])
def test_growth(schedprof_scheduler: SchedulerUnderTest, schedprof_scale: int) -> None:
    wait(schedprof_scheduler.client.map(inc, range(schedprof_scale), pure=False))


@pytest.mark.schedprof
def test_tasks(schedprof_scheduler: SchedulerUnderTest) -> None:
    run_tree(schedprof_scheduler, 4)  # which imports and compiles
    with schedprof_scheduler.measure():
        run_tree(schedprof_scheduler, 8)


@pytest.mark.schedprof(backend="cputime", evidence="all")
def test_evidence(schedprof_scheduler: SchedulerUnderTest) -> None:
    run_many(schedprof_scheduler, 3)
    wait(schedprof_scheduler.client.submit(time.sleep, 0.2))  # for the profiles of workers


@pytest.mark.schedprof(f"share({TRANSITION}) <= 0.01%", "share(@gc) <= 100%", "peak <= 1MB")
def test_busy(schedprof_scheduler: SchedulerUnderTest) -> None:
    run_many(schedprof_scheduler, 3)


@pytest.mark.schedprof("share(@comm) <= 30%")
def test_idle(schedprof_scheduler: SchedulerUnderTest) -> None:
    time.sleep(0.2)


@pytest.mark.schedprof("share(@transitions) <= 90%")
def test_killed(schedprof_scheduler: SchedulerUnderTest) -> None:
    run_many(schedprof_scheduler, 5)
    os.kill(schedprof_scheduler.pid, signal.SIGKILL)
    schedprof_scheduler.client.submit(inc, 1).result(timeout=20)


@pytest.mark.schedprof(f"calls({TRANSITION}) <= 6.5", backend="counts")
@gen_cluster(client=True)
async def test_gen_cluster(client: Any, scheduler: Any, a: Any, b: Any) -> None:
    await wait(client.map(inc, range(20)))
