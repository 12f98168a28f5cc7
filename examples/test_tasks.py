"""Profile the scheduler while it runs many small tasks.

Run with `pytest --schedprof examples/`. A limit bounds the share of the scheduler's busy time
that a function or an owner may take; a broken limit fails its test.
"""

from __future__ import annotations

import pytest
from distributed import wait

from pytest_schedprof import SchedulerUnderTest


def inc(x: int) -> int:
    return x + 1


def add(x: int, y: int) -> int:
    return x + y


@pytest.mark.slow
@pytest.mark.schedprof(
    "share(distributed.scheduler:SchedulerState._transition) <= 60%",
    "share(@stealing) <= 30%",
    "self(distributed.scheduler:*) <= 60%",
    rate=150,
    rounds=5,
)
def test_many_small_tasks(schedprof_scheduler: SchedulerUnderTest) -> None:
    """With three rounds or more, the bounds come from the scatter between rounds."""
    wait(schedprof_scheduler.client.map(inc, range(400), pure=False))


@pytest.mark.slow
@pytest.mark.schedprof("share(@worker-choice) <= 50%", "share(@stealing) <= 50%", rate=150)
def test_tree_reduction(schedprof_scheduler: SchedulerUnderTest) -> None:
    client = schedprof_scheduler.client
    level = client.map(inc, range(512), pure=False)
    while len(level) > 1:
        level = client.map(add, level[::2], level[1::2], pure=False)
    wait(level)


@pytest.mark.slow
@pytest.mark.schedprof("share(@comm) <= 60%", rate=250)
def test_submission_alone(schedprof_scheduler: SchedulerUnderTest) -> None:
    """Profile only the part of the test that matters, with `measure`."""
    client = schedprof_scheduler.client
    with schedprof_scheduler.measure():
        futures = client.map(inc, range(8_000), pure=False)
        wait(futures[:1])  # by then the scheduler has taken in the graph


@pytest.mark.slow
@pytest.mark.schedprof(
    "calls(distributed.scheduler:SchedulerState._transition) <= 6.1", backend="counts"
)
def test_transitions_of_a_task(schedprof_scheduler: SchedulerUnderTest) -> None:
    """Counts are the same in every run: one more transition per task breaks the limit."""
    wait(schedprof_scheduler.client.map(inc, range(300), pure=False))
