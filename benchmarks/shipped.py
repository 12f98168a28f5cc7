"""The shipped workloads, each as a profiled test: what `backtest.py` runs in every environment.

The cluster and the size are those of the command line. The cluster must be simulated or virtual.

    pytest benchmarks/shipped.py --schedprof=counts --schedprof-cluster=simulated \
        --schedprof-workers=20 --schedprof-scale=200 --schedprof-against=distributed==2026.7.0
"""

from __future__ import annotations

import pytest

from pytest_schedprof import SchedulerUnderTest
from pytest_schedprof.workloads.test_shipped import cases, run


@pytest.mark.schedprof
@pytest.mark.parametrize("workload", cases({}))
def test_shipped(
    schedprof_scheduler: SchedulerUnderTest, schedprof_scale: int, workload: str
) -> None:
    run(schedprof_scheduler.client, workload, schedprof_scale)
