"""What a computation costs on its way: in the client before the scheduler sees it, and there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pytest_schedprof.analysis.phases import bar_of, phases_of
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.evidence.client import HAS_CLOCKS
from pytest_schedprof.evidence.contract import Brought, EvidenceUnavailableError, Kind
from pytest_schedprof.evidence.pictures import as_json
from pytest_schedprof.formats.bar import draw_bar
from pytest_schedprof.model.result import BackendResult

UNSAMPLED = "no phases of the scheduler: they are shares of what cputime or pyspy sampled"
NO_CLOCK = "no construction and sending: this system has no clocks for threads' CPU time"


class PhasesKind(Kind):
    """The recorder has kept them, for its windows alone; here they are put in order."""

    def __init__(self, scheduler: SchedulerUnderTest, test_id: str) -> None:
        """Of the scheduler and its client."""

    @contextmanager
    def take(self, number: int) -> Iterator[None]:
        """Nothing needs to be done."""
        yield

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """As JSON, and as one bar."""
        phases = phases_of(found)
        if phases is None:
            raise EvidenceUnavailableError("no backend saw the scheduler finish a task of the test")
        notes = [] if HAS_CLOCKS else [NO_CLOCK]
        notes += [] if phases.sampled_by else [UNSAMPLED]
        files = {"phases.json": as_json(phases), "phases.svg": draw_bar(bar_of(phases))}
        return Brought(files, tuple(notes))
