"""Dask's performance report: the dashboard's plots in one page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pytest_schedprof.agent import reports, task_stream
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.evidence.contract import Brought, EvidenceUnavailableError
from pytest_schedprof.evidence.kept import KeptKind
from pytest_schedprof.model.result import BackendResult


class ReportKind(KeptKind):
    """Of all takes together."""

    def __init__(self, scheduler: SchedulerUnderTest, test_id: str) -> None:
        super().__init__(scheduler, test_id)
        self._control.call(task_stream.watch)

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """The page."""
        try:
            page = self._control.call(reports.draw, self._begun, escape(self._test_id))
        finally:
            self._control.call(task_stream.unwatch)
        if not page:
            raise EvidenceUnavailableError(
                "Bokeh is not installed where the scheduler runs; pip install bokeh"
            )
        return Brought({"report.html": page.encode()})
