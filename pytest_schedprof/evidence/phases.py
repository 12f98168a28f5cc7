"""The kind `phases`: CPU time of a computation in client, scheduler and workers, by phase."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_schedprof.analysis.phases import bar_of, bar_of_steps, phases_of
from pytest_schedprof.evidence.client import HAS_CLOCKS
from pytest_schedprof.evidence.contract import (
    TOGETHER,
    Brought,
    EvidenceUnavailableError,
    Kind,
    Need,
    RunFigures,
)
from pytest_schedprof.evidence.pictures import as_json
from pytest_schedprof.formats.bar import draw_bar
from pytest_schedprof.model.result import BackendResult

UNSAMPLED = "no phases of the scheduler: they are shares, which no backend of the test measured"
SAME_THREADS = (
    "no construction and sending: in the test's own process the client has no threads of its own"
)
NO_WORKERS = (
    "no phases of workers: they came or left, compute nothing, or are in the test's own process"
)
NO_CLOCK = "no construction and sending: this system has no clocks for threads' CPU time"


class PhasesKind(
    Kind,
    name="phases",
    description="a computation's way, from submission to result",
    needs=[Need.CLIENT_PHASES, Need.WORKER_PHASES],
):
    """Sums up what the recorder measured of the client and what backends sampled."""

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """Return the phases as JSON and as one bar."""
        phases = phases_of(found)
        if phases is None:
            raise EvidenceUnavailableError("no backend saw the scheduler finish a task of the test")
        notes = [] if HAS_CLOCKS else [NO_CLOCK]
        notes += [] if phases.sampled_by else [UNSAMPLED]
        notes += [] if self.test.known_scheduler else [SAME_THREADS]
        notes += [] if any(each.where == "workers" for each in phases.phases) else [NO_WORKERS]
        files = {"phases.json": as_json(phases), "phases.svg": draw_bar(bar_of(phases))}
        if steps := bar_of_steps(phases):
            files["phases.steps.svg"] = draw_bar(steps)
        costs = [(each.name, each.cpu_seconds_per_task) for each in phases.phases]
        figures = [RunFigures("phase", name, {TOGETHER: cost}) for name, cost in costs]
        return Brought(files, tuple(notes), figures)
