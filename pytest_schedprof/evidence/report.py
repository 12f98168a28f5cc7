"""Dask's performance report: the dashboard's plots in one page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape

from pytest_schedprof.agent import reports
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.evidence.contract import Brought, EvidenceUnavailableError
from pytest_schedprof.evidence.kept import KeptKind
from pytest_schedprof.evidence.stream import Stream
from pytest_schedprof.model.result import BackendResult


class ReportKind(KeptKind):
    """Of all takes together."""

    def __init__(self, scheduler: SchedulerUnderTest, test_id: str) -> None:
        super().__init__(scheduler, test_id)
        self._stream = Stream(self._control)

    @contextmanager
    def take(self, number: int) -> Iterator[None]:
        """The page shows what was noted meanwhile."""
        with self._stream.watched():
            yield

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """The page."""
        with self._stream.watched():
            page = self._control.call(reports.draw, self._begun, escape(self._test_id))
        if not page:
            raise EvidenceUnavailableError(
                "Bokeh is not installed where the scheduler runs; pip install bokeh"
            )
        return Brought({"report.html": page.encode()})

    def close(self) -> None:
        """The stream is a plugin of the scheduler."""
        self._stream.close()
