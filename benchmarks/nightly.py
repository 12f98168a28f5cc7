"""The tests of one night, which `thresholds.py` runs night after night.

With PLANTED set, the scheduler has a slower method: the regression that is to be found.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from distributed import wait

from pytest_schedprof import SchedulerUnderTest

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from injection import plant

METHOD = "SchedulerState._transition"
WARM_UP = 20


def inc(x: int) -> int:
    return x + 1


def run(scheduler: SchedulerUnderTest, tasks: int) -> None:
    wait(scheduler.client.map(inc, range(tasks), pure=False), timeout=300)


@pytest.fixture
def scheduler(schedprof_scheduler: SchedulerUnderTest) -> SchedulerUnderTest:
    """The scheduler under test, with the planted regression if this night has it."""
    if statement := os.environ.get("PLANTED"):
        schedprof_scheduler.client.run_on_scheduler(
            plant, module="distributed.scheduler", qualname=METHOD, statement=statement
        )
    run(schedprof_scheduler, WARM_UP)
    return schedprof_scheduler


@pytest.mark.schedprof(backend="counts", rounds=3)
def test_counts(scheduler: SchedulerUnderTest) -> None:
    run(scheduler, 60)


@pytest.mark.schedprof(backend="cputime", rounds=3)
def test_rounds(scheduler: SchedulerUnderTest) -> None:
    run(scheduler, 600)


@pytest.mark.schedprof(backend="cputime", rounds=1)
def test_window(scheduler: SchedulerUnderTest) -> None:
    run(scheduler, 1800)
