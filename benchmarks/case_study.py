"""Workloads that show what changed in the scheduler between two releases of distributed.

The results are in benchmarks/README.md. Where distributed 2026.8.0 is installed, run both in turns:

    pytest benchmarks/case_study.py --schedprof=counts --schedprof-cluster=simulated \
        --schedprof-workers=20 --schedprof-against=distributed==2025.5.0

Or run each release in an environment of its own (`old` and `new`), and then compare:

    old/bin/pytest --noconftest benchmarks/case_study.py --schedprof=counts --schedprof-rounds=3 \
        --schedprof-cluster=simulated --schedprof-workers=20 --schedprof-save=old
    new/bin/pytest ... --schedprof-compare=old
"""

from __future__ import annotations

import pytest

from pytest_schedprof import SchedulerUnderTest
from pytest_schedprof.workloads import WORKLOADS

TASKS = 1000
SHAPES = (
    "many_tiny_tasks",
    "fan_out",
    "deep_chains",
    "all_to_all",
    "rechunk",
    "set_index",
    "column_arithmetic",
)

GRAPHS = (
    "distributed.scheduler",
    "distributed.stealing",
    "distributed._expr",
    "dask._expr",
    "dask._task_spec",
    "dask.order",
    "dask.core",
    "dask.blockwise",
    "dask.highlevelgraph",
)
"""Modules to count: those that schedulers since 2025.4 use on graphs, and no others."""

pytestmark = pytest.mark.schedprof(options={"counts": {"modules": GRAPHS}})


@pytest.mark.parametrize("shape", SHAPES)
def test_shape(schedprof_scheduler: SchedulerUnderTest, shape: str) -> None:
    WORKLOADS[shape](schedprof_scheduler.client, TASKS)
