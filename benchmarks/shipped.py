"""The workloads of `pytest --pyargs pytest_schedprof.workloads` at any size, for `backtest.py`."""

from __future__ import annotations

import pytest

from pytest_schedprof import SchedulerUnderTest
from pytest_schedprof.workloads.test_shipped import DURATION, cases, run


@pytest.mark.schedprof(cluster="virtual", workers=20)
@pytest.mark.parametrize("workload", cases(DURATION))
def test_shipped(
    schedprof_scheduler: SchedulerUnderTest, schedprof_scale: int, workload: str
) -> None:
    run(schedprof_scheduler.client, workload, schedprof_scale)
