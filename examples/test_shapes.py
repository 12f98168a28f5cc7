"""Shapes of graphs that have slowed schedulers down, each at a size of your choice.

By default they run a thousand tasks on a few workers. For the load of a large cluster:

    pytest --schedprof=counts --schedprof-cluster=simulated --schedprof-workers=1000 examples/
"""

from __future__ import annotations

import pytest

from pytest_schedprof import SchedulerUnderTest
from pytest_schedprof.workloads import WORKLOADS

SHAPES = (
    "fan_out",
    "deep_chains",
    "all_to_all",
    "many_prefixes",
    "submission_only",
)


@pytest.mark.slow
@pytest.mark.schedprof("share(@worker-choice) <= 90%", "share(@stealing) <= 90%", rate=150)
@pytest.mark.parametrize("shape", SHAPES)
def test_shape(schedprof_scheduler: SchedulerUnderTest, schedprof_scale: int, shape: str) -> None:
    WORKLOADS[shape](schedprof_scheduler.client, schedprof_scale)


@pytest.mark.slow
@pytest.mark.schedprof("growth(bytecodes) <= 1.1", backend="counts", scale=[100, 500])
def test_cost_of_a_task_does_not_grow(
    schedprof_scheduler: SchedulerUnderTest, schedprof_scale: int
) -> None:
    """Work per task that is linear in the number of tasks breaks this limit."""
    WORKLOADS["many_tiny_tasks"](schedprof_scheduler.client, schedprof_scale)
