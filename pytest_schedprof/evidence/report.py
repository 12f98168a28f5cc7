"""The kind `report`: dask's performance report, the dashboard's plots in one page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape

from pytest_schedprof.agent import reports
from pytest_schedprof.evidence.contract import (
    Brought,
    EvidenceUnavailableError,
    Kind,
    ObservedTest,
)
from pytest_schedprof.evidence.stream import Stream
from pytest_schedprof.model.result import BackendResult


class ReportKind(Kind, name="report", description="dask's performance report"):
    """One page for all runs of the body together."""

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        self._control = test.scheduler.control
        self._begun = self._control.call(reports.clock)
        self._stream = Stream(self._control)

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        """Keep the task stream running: the page is drawn from it."""
        with self._stream.watched():
            yield

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """Return the page."""
        code = escape(f"{self.test.test_id}\n\n{self.test.code()}".rstrip())
        with self._stream.watched():
            page = self._control.call(reports.draw, self._begun, code)
        if not page:
            raise EvidenceUnavailableError(
                "Bokeh is not installed where the scheduler runs; pip install bokeh"
            )
        return Brought({"report.html": page.encode()})

    def close(self) -> None:
        """Remove the task stream, which is a plugin of the scheduler."""
        self._stream.close()
