"""What many small tasks cost the scheduler.

Run with `pytest --schedprof=pyspy examples/`. A limit says how much of the scheduler's busy
time a part of it may hold; one that the data breaks fails its test.
"""

from __future__ import annotations

import pytest
from distributed import wait

from pytest_schedprof import SchedulerUnderTest


def inc(x: int) -> int:
    return x + 1


def add(x: int, y: int) -> int:
    return x + y


@pytest.mark.schedprof("share(distributed.scheduler:SchedulerState._transition) <= 60%")
def test_many_small_tasks(schedprof_scheduler: SchedulerUnderTest) -> None:
    futures = schedprof_scheduler.client.map(inc, range(3_000), pure=False)
    wait(futures)


@pytest.mark.schedprof("share(@worker-choice) <= 50%", "share(@stealing) <= 50%", rate=250)
def test_tree_reduction(schedprof_scheduler: SchedulerUnderTest) -> None:
    client = schedprof_scheduler.client
    level = client.map(inc, range(1_024), pure=False)
    while len(level) > 1:
        level = client.map(add, level[::2], level[1::2], pure=False)
    wait(level)


@pytest.mark.schedprof("share(@comm) <= 60%", rate=250)
def test_submission_alone(schedprof_scheduler: SchedulerUnderTest) -> None:
    """`measure` narrows the profile to the part of the test that matters."""
    client = schedprof_scheduler.client
    with schedprof_scheduler.measure():
        futures = client.map(inc, range(15_000), pure=False)
        wait(futures[:1])  # so the graph has been taken in
    client.cancel(futures)


@pytest.mark.schedprof("self(distributed.scheduler:*) <= 60%", rounds=5)
def test_same_work_in_rounds(schedprof_scheduler: SchedulerUnderTest) -> None:
    """With three rounds or more the scatter between them gives the bounds."""
    wait(schedprof_scheduler.client.map(inc, range(1_000), pure=False))


@pytest.mark.schedprof(
    "calls(distributed.scheduler:SchedulerState._transition) <= 6.1", backend="counts"
)
def test_transitions_of_a_task(schedprof_scheduler: SchedulerUnderTest) -> None:
    """Counts are the same every run: one transition more per task fails this."""
    wait(schedprof_scheduler.client.map(inc, range(1_000), pure=False))
