"""Every workload as a profiled test: a regression check of the distributed that is installed.

    pytest --pyargs pytest_schedprof.workloads --schedprof --schedprof-save=main
    pytest --pyargs pytest_schedprof.workloads --schedprof --schedprof-compare=main

They run in virtual time, where counts are the same in each run. Tasks take half a second, which
costs little there: stealing looks at the workers only once a second.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_schedprof.formats.workload import SHIPPED
from pytest_schedprof.workloads import WORKLOADS, collections

SIZE = 200
"""About the number of tasks; most of the time goes to starting clusters."""

DURATION = {"duration": "exponential(500ms)"}

CLUSTER_OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {"workload": name} for name in SHIPPED},
    "retried": {"failures": 0.5},
}
"""What the tasks of some workloads need of the cluster."""

OF_COLLECTIONS = ("numpy", "pandas", "pyarrow")
"""What `pip install pytest-schedprof[examples]` installs, and workloads of collections need."""

OF_DASK_ALONE = (*SHIPPED, "deep_collections")
"""Those that need none of it."""


def cases(options: dict[str, Any]) -> list[Any]:
    """Return a parameter for each workload, whose cluster has these options if it needs no others.

    Tasks of recorded ones take as long and are as large as in reality.
    """
    return [
        pytest.param(
            name,
            marks=pytest.mark.schedprof(
                cluster_options={
                    **({} if name in SHIPPED else options),
                    **CLUSTER_OPTIONS.get(name, {}),
                }
            ),
        )
        for name in WORKLOADS
    ]


def run(client: Any, workload: str, size: int) -> None:
    """Run a workload, or skip the test if it needs what is not installed."""
    is_of_collections = WORKLOADS[workload].__module__ == collections.__name__
    if is_of_collections and workload not in OF_DASK_ALONE:
        for package in OF_COLLECTIONS:
            pytest.importorskip(package, reason="the extra `examples` is not installed")
    WORKLOADS[workload](client, size)


@pytest.mark.schedprof(cluster="virtual", workers=20)
@pytest.mark.parametrize("workload", cases(DURATION))
def test_shipped(schedprof_scheduler: Any, workload: str) -> None:
    run(schedprof_scheduler.client, workload, SIZE)
