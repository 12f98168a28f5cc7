"""The kind `phases`: CPU time of a computation in client, scheduler and workers, by phase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

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
from pytest_schedprof.formats.pictures import COLOURS, ground, picture, plain, write
from pytest_schedprof.judge.phases import bar_of, bar_of_steps, phases_of
from pytest_schedprof.model.evidence import Phases
from pytest_schedprof.model.limit import MIN_SAMPLES
from pytest_schedprof.model.result import BackendResult

WIDTH, BAR, ROW, LEFT = 900, 40, 20, 10


def draw_bar(parts: Sequence[tuple[str, float]]) -> bytes:
    """Draw parts side by side, numbered, with a list of their amounts in microseconds below.

    The numbers make the picture readable without colours.
    """
    total = sum(amount for _, amount in parts) or 1.0
    ends = list(accumulate(amount for _, amount in parts))
    height = 2 * ROW + BAR + ROW * (len(parts) + 1)
    lines = [ground(WIDTH, height)]
    lines.append(write(LEFT, ROW - 4, f"{_micro(total)} of CPU per task"))
    for number, ((label, amount), end) in enumerate(zip(parts, ends, strict=True), start=1):
        lines += _part(number, label, amount / total, (end - amount) / total, _micro(amount))
    return picture(WIDTH, height, lines)


def _part(number: int, label: str, part: float, begin: float, amount: str) -> list[str]:
    room = WIDTH - 2 * LEFT
    x, width, colour = LEFT + room * begin, room * part, COLOURS[(number - 1) % len(COLOURS)]
    text = plain(f"{number}  {label}: {amount} ({part:.0%})")
    y = ROW + BAR + ROW * (number + 1)
    inside = (
        f'<text x="{x + width / 2:.1f}" y="{ROW + BAR / 2 + 5}" fill="white" '
        f'text-anchor="middle">{number}</text>'
        if width > ROW
        else ""
    )
    return [
        f'<g><title>{text}</title><rect x="{x:.1f}" y="{ROW}" width="{width:.1f}" height="{BAR}" '
        f'fill="{colour}" stroke="white"/>{inside}</g>\n',
        f'<rect x="{LEFT}" y="{y - 12}" width="12" height="12" fill="{colour}"/>'
        f'<text x="{LEFT + 20}" y="{y - 1}">{text}</text>\n',
    ]


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

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """Return the phases as JSON and as one bar."""
        phases = phases_of(found)
        if phases is None:
            raise EvidenceUnavailableError("no backend saw the scheduler finish a task of the test")
        notes = [] if HAS_CLOCKS else [NO_CLOCK]
        notes += [] if phases.sampled_by else [UNSAMPLED]
        notes += [TOO_FEW.format(phases.samples)] if _is_too_few(phases) else []
        notes += [] if self.test.known_scheduler else [SAME_THREADS]
        notes += [] if any(each.where == "workers" for each in phases.phases) else [NO_WORKERS]
        files = {"phases.json": as_json(phases), "phases.svg": draw_bar(bar_of(phases))}
        if steps := bar_of_steps(phases):
            files["phases.steps.svg"] = draw_bar(steps)
        return Brought(files, tuple(notes), list(_figures(phases)))


def _is_too_few(phases: Phases) -> bool:
    """Whether the scheduler's phases are shares of too few samples to be judged."""
    return bool(phases.sampled_by) and phases.samples < MIN_SAMPLES


def _figures(phases: Phases) -> Iterator[RunFigures]:
    """Yield what limits bound: the cost of each phase that is known well enough."""
    for each in phases.phases:
        if each.where != "scheduler" or not _is_too_few(phases):
            yield RunFigures("phase", each.name, {TOGETHER: each.cpu_seconds_per_task})


KIND: type[Kind] = PhasesKind
