"""The kind `report`: dask's performance report, the dashboard's plots in one page."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from textwrap import dedent
from types import CodeType
from typing import Any

from pytest_schedprof.agent import instruments
from pytest_schedprof.evidence.contract import Brought, EvidenceUnavailableError, Kind, ObservedTest
from pytest_schedprof.evidence.tasks import Stream
from pytest_schedprof.model.result import BackendResult


class ReportKind(Kind, name="report", description="dask's performance report"):
    """One page for all runs of the body together."""

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        self._control = test.scheduler.control
        self._begun = self._control.call(instruments.clock)
        self._stream = Stream(self._control)

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        """Keep the task stream running: the page is drawn from it."""
        with self._stream.watched():
            yield

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        code = escape(f"{self.test.test_id}\n\n{self.test.code()}".rstrip())
        with self._stream.watched():
            page = self._control.call(instruments.draw, self._begun, code)
        if not page:
            raise EvidenceUnavailableError(
                "Bokeh is not installed where the scheduler runs; pip install bokeh"
            )
        return Brought({"report.html": page.encode()})

    def close(self) -> None:
        self._stream.close()


def source_of(thing: Any) -> str:
    """Return the source of a function, or of code; empty if there is none, as of a doctest."""
    try:
        if isinstance(thing, CodeType) and thing.co_name == "<module>":
            return "".join(inspect.findsource(thing)[0])
        return dedent(inspect.getsource(thing))
    except Exception:  # besides what it documents, inspect raises errors of its tokenizer
        return ""


def calling_code() -> CodeType:
    """Return the code that called the caller of this function, also through an `ExitStack`."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals.get("__name__") == "contextlib":
        frame = frame.f_back
    return frame.f_code
