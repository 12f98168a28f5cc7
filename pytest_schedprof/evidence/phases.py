"""The kind `phases`: CPU time of a computation in client, scheduler and workers, by phase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from pytest_schedprof.formats.charts import (
    COLOURS,
    ROW,
    Scale,
    as_file,
    box,
    element,
    legend,
    words,
)
from pytest_schedprof.judge.phases import bar_of, phases_of
from pytest_schedprof.model.evidence import Phases
from pytest_schedprof.model.limit import MIN_SAMPLES
from pytest_schedprof.model.result import BackendResult

WIDTH, BAR, LEFT = 900, 40, 10


def draw_bar(parts: Sequence[tuple[str, float]]) -> bytes:
    """Draw parts side by side, numbered, with a list of their amounts in microseconds below."""
    total = sum(amount for _, amount in parts) or 1.0
    x, end = Scale(total, WIDTH - 2 * LEFT, LEFT), 0.0
    drawn = [words(LEFT, ROW - 4, f"{_micro(total)} of CPU per task")]
    texts = [f"{label}: {_micro(amount)} ({amount / total:.0%})" for label, amount in parts]
    for number, (text, (_, amount)) in enumerate(zip(texts, parts, strict=True), start=1):
        left, width = x(end), x(end + amount) - x(end)
        end += amount
        colour = COLOURS[(number - 1) % len(COLOURS)]
        bar = box(left, ROW, width, BAR, fill=colour, stroke="white")
        middle = left + width / 2, ROW + BAR / 2 + 5
        name = words(*middle, f"{number}", fill="white", text_anchor="middle")
        drawn.append(element("g", bar, name if width > ROW else "", title=f"{number}  {text}"))
    drawn += legend(LEFT, ROW + BAR + ROW, texts)
    return as_file(WIDTH, 2 * ROW + BAR + ROW * (len(parts) + 1), drawn)


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us"


UNSAMPLED = "no phases of the scheduler: they are shares, which no backend of the test measured"
TOO_FEW = (
    "no limit on phases of the scheduler is judged: they are shares of {} busy samples, "
    f"at least {MIN_SAMPLES} are needed"
)
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

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        phases = phases_of(results)
        if phases is None:
            raise EvidenceUnavailableError("no backend saw the scheduler finish a task of the test")
        notes = [] if HAS_CLOCKS else [NO_CLOCK]
        notes += [] if phases.sampled_by else [UNSAMPLED]
        notes += [TOO_FEW.format(phases.samples)] if _is_too_few(phases) else []
        notes += [] if self.test.known_scheduler else [SAME_THREADS]
        notes += [] if any(phase.where == "workers" for phase in phases.phases) else [NO_WORKERS]
        files = {"phases.json": as_json(phases), "phases.svg": draw_bar(bar_of(phases))}
        return Brought(files, tuple(notes), list(_figures(phases)))


def _is_too_few(phases: Phases) -> bool:
    """Whether the scheduler's phases are shares of too few samples to be judged."""
    return bool(phases.sampled_by) and phases.samples < MIN_SAMPLES


def _figures(phases: Phases) -> Iterator[RunFigures]:
    """Yield what limits bound: the cost of each phase that is known well enough."""
    for phase in phases.phases:
        if phase.where != "scheduler" or not _is_too_few(phases):
            yield RunFigures("phase", phase.name, {TOGETHER: phase.cpu_seconds_per_task})


KIND: type[Kind] = PhasesKind
