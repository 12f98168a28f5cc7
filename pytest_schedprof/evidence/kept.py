"""What dask keeps in any case, and is asked for when the test is over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_schedprof.agent import reports
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.evidence.contract import Kind


class KeptKind(Kind):
    """Subclasses ask for what came since the test began, by the scheduler's clock."""

    def __init__(self, scheduler: SchedulerUnderTest, test_id: str) -> None:
        self._control = scheduler.control
        self._test_id = test_id
        self._begun = self._control.call(reports.clock)

    @contextmanager
    def take(self, number: int) -> Iterator[None]:
        """Nothing needs to be done."""
        yield
