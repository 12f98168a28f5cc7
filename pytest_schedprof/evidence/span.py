"""A span around each take: how tasks fared, by the scheduler's own account."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import dask.config
import msgspec
from distributed import span

from pytest_schedprof.agent import spans
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.evidence.contract import Brought, EvidenceUnavailableError, Kind
from pytest_schedprof.model.evidence import Spans
from pytest_schedprof.model.result import BackendResult

CODE = "distributed.diagnostics.computations.nframes"
"""How many frames of the caller a client sends along: none by default."""

HOLLOW = "workers measured nothing: cumulative_worker_metrics holds no time of theirs"


ELSEWHERE = "the body ran in another context than where its span was opened: as under `async with`"


WARNING = r"Dask annotations \{'span': "
"""Dask warns where it may lose them, as in dataframes; the test has not asked for this one."""


class SpanKind(Kind):
    """Tags the tasks of the body, and asks the scheduler afterwards."""

    def __init__(self, scheduler: SchedulerUnderTest, test_id: str) -> None:
        self._control = scheduler.control
        self._test_id = test_id
        self._ids: list[str] = []

    @contextmanager
    def take(self, number: int) -> Iterator[None]:
        """Tasks that are submitted inside belong to it."""
        frames = max(1, dask.config.get(CODE))
        try:
            with dask.config.set({CODE: frames}), _no_warning(), span(self._test_id) as name:
                self._ids.append(name)
                yield
        except ValueError:  # of a context variable
            raise EvidenceUnavailableError(ELSEWHERE) from None

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """As JSON, one span for each take and all merged."""
        beats = self._control.call_workers(spans.beat)
        told = self._control.call(spans.tell_spans, self._ids)
        if "problem" in told:
            raise EvidenceUnavailableError(told["problem"])
        content = msgspec.json.encode(msgspec.convert(told, Spans))
        notes = () if all(beats.values()) else (HOLLOW,)
        return Brought({"span.json": msgspec.json.format(content, indent=2)}, notes)


@contextmanager
def _no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=WARNING)
        yield
