"""Schedulers under test, for checking evidence against what the scheduler itself reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from pytest_schedprof.clusters.own import LocalProcesses, SimulatedCluster
from pytest_schedprof.clusters.under_test import SchedulerUnderTest, open_scheduler
from pytest_schedprof.control.control import Control

KINDS = {"local": LocalProcesses, "simulated": SimulatedCluster}


@contextmanager
def opened(kind: str, workers: int = 2) -> Iterator[SchedulerUnderTest]:
    """Open a scheduler with workers, as the fixture does for a test."""
    with (
        closing(KINDS[kind](workers, timeout_s=200)) as cluster,
        Control(cluster.address) as control,
        open_scheduler(cluster, control) as scheduler,
    ):
        yield scheduler
