"""Schedulers under test, for evidence that is held against what they themselves say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_schedprof.clusters.control import Control
from pytest_schedprof.clusters.local import LocalCluster
from pytest_schedprof.clusters.simulated import SimulatedCluster
from pytest_schedprof.clusters.under_test import SchedulerUnderTest, open_scheduler

KINDS = {"local": LocalCluster, "simulated": SimulatedCluster}


@contextmanager
def opened(kind: str, workers: int = 2) -> Iterator[SchedulerUnderTest]:
    """A scheduler with workers, as the fixture gives it to a test."""
    cluster = KINDS[kind](workers, timeout_s=30)
    try:
        with (
            Control(cluster.address) as control,
            open_scheduler(cluster, control) as scheduler,
        ):
            yield scheduler
    finally:
        cluster.close()
