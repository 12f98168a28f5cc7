"""The kind `span`: a span around each run of the body, and what the scheduler knows of it."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dask.config
import msgspec
from distributed import span

from pytest_schedprof.agent import spans
from pytest_schedprof.evidence.contract import Brought, EvidenceUnavailableError, Kind, ObservedTest
from pytest_schedprof.model.evidence import Spans
from pytest_schedprof.model.result import BackendResult

CODE = "distributed.diagnostics.computations.nframes"
"""Option of dask: how many of the caller's frames a client sends with a graph, by default none."""

IGNORED = "distributed.diagnostics.computations.ignore-files"
"""Option of dask: patterns of files whose frames are nobody's own code."""

HOLLOW = "workers measured nothing: cumulative_worker_metrics holds no time of theirs"

ELSEWHERE = "the body ran in another context than where its span was opened: as under `async with`"

WARNING = r"Dask annotations \{'span': "
"""dask warns where annotations may get lost, as in dataframes. The test did not make this one."""


class SpanKind(
    Kind, name="span", description="tasks by span: states, durations, the cluster's threads"
):
    """Opens a span around each run of the body, and asks the scheduler about it afterwards."""

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        self._control = test.scheduler.control
        self._ids: list[str] = []
        self._before: list[str] = self._control.call(spans.known_spans)

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        """Open a span: tasks that are submitted meanwhile belong to it."""
        with span_around(self.test.test_id) as name:
            self._ids.append(name)
            yield

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        beats = self._control.call_workers(spans.beat)
        answer = self._control.call(spans.tell_spans, self._ids, self._before)
        if "problem" in answer:
            raise EvidenceUnavailableError(answer["problem"])
        return brought_spans(answer, () if all(beats.values()) else (HOLLOW,))


def brought_spans(answer: dict[str, Any], notes: tuple[str, ...]) -> Brought:
    """Return what a scheduler told as JSON."""
    content = msgspec.json.encode(msgspec.convert(answer, Spans))
    return Brought({"span.json": msgspec.json.format(content, indent=2)}, notes)


@contextmanager
def span_around(name: str) -> Iterator[str]:
    """Open a span with this name, and yield its ID; tasks tell the code that submitted them."""
    frames = max(1, dask.config.get(CODE))
    try:
        seen = {CODE: frames, IGNORED: ignored_here(dask.config.get(IGNORED, []), _directory())}
        with dask.config.set(seen), warnings.catch_warnings(), span(name) as identity:
            warnings.filterwarnings("ignore", message=WARNING)
            yield identity
    except ValueError:  # a context variable is reset in another context
        raise EvidenceUnavailableError(ELSEWHERE) from None


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # the test has removed it
        return ""


def ignored_here(patterns: Sequence[str], directory: str) -> list[str]:
    """Leave out patterns of files that the directory of the tests matches itself.

    dask ignores all files below directories that have `pytest` in their names, such as a checkout
    of a plugin.
    """
    within = directory.replace("\\", "/") + "/"
    return [pattern for pattern in patterns if not re.match(rf".*/({pattern})/", within)]
