"""The shipped workloads, each as a profiled test: what `backtest.py` runs in every environment.

Tasks of the recorded ones take as long and are as large as in reality, so the cluster must be
simulated or virtual.

    pytest benchmarks/shipped.py --schedprof=counts --schedprof-cluster=simulated \
        --schedprof-workers=20 --schedprof-scale=200 --schedprof-against=distributed==2026.7.0
"""

from __future__ import annotations

import pytest

from pytest_schedprof import SchedulerUnderTest
from pytest_schedprof.formats.workload import SHIPPED
from pytest_schedprof.workloads import WORKLOADS, collections

CLUSTER_OPTIONS = {
    **{name: {"workload": name} for name in SHIPPED},
    "retried": {"failures": 0.5},
}
"""What the tasks of some workloads need of the cluster."""

OF_COLLECTIONS = ("numpy", "pandas", "pyarrow")
"""What `pip install pytest-schedprof[examples]` installs, and workloads of collections need."""

CASES = [
    pytest.param(name, marks=pytest.mark.schedprof(cluster_options=CLUSTER_OPTIONS.get(name, {})))
    for name in WORKLOADS
]


@pytest.mark.schedprof
@pytest.mark.parametrize("workload", CASES)
def test_shipped(
    schedprof_scheduler: SchedulerUnderTest, schedprof_scale: int, workload: str
) -> None:
    if WORKLOADS[workload].__module__ == collections.__name__:
        for package in OF_COLLECTIONS:
            pytest.importorskip(package, reason="the extra `examples` is not installed")
    WORKLOADS[workload](schedprof_scheduler.client, schedprof_scale)
