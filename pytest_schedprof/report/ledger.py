"""The ledger of graph intake: the way of a graph from the client to its first task, by step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_schedprof.formats.counted import IntakeFile
from pytest_schedprof.judge.costs import DRIFT, MIN_SCALES, exponent
from pytest_schedprof.model.evidence import ONCE, STEPS, step_of
from pytest_schedprof.model.metric import CLIENT, INTAKE, METRICS, STEP_METRICS, readable
from pytest_schedprof.model.result import BackendResult, Window

CPU, CALLS = (STEP_METRICS[name] for name in ("cpu", "calls"))

IN_CLIENT: Mapping[str, str] = {
    "construction": "the test's own code, and dask's on its thread",
    "optimisation": "dask's, of the graph",
    "serialisation": "the graph becomes bytes",
    "sending": "the client's event loop, what it receives included",
}
"""What happens in each phase of the client."""

UNCOUNTED = (ONCE, "gc")
"""Steps whose calls are not counted."""

HUES = 360 / len(STEPS)


class Step(NamedTuple):
    """A phase of the client or a step of the scheduler, with its CPU seconds."""

    where: str
    name: str
    seconds: float
    by_scale: Mapping[int, float]
    """Seconds by the size of the workload."""
    calls: float | None = None
    """None if they were not counted."""

    @property
    def what(self) -> str:
        """What happens in it."""
        return (IN_CLIENT if self.where == "client" else STEPS)[self.name]

    @property
    def hue(self) -> float | None:
        """Colour; None in the client."""
        is_client = self.where == "client"
        return None if is_client else round(list(STEPS).index(self.name) * HUES)


class Ledger(NamedTuple):
    """All that the way of a graph cost."""

    steps: list[Step]
    graphs: int
    tasks: int
    tasks_by_scale: Mapping[int, int]
    """Empty if the workload had too few sizes."""

    @property
    def seconds(self) -> float:
        """CPU time of the whole way."""
        return sum(step.seconds for step in self.steps)

    @property
    def note(self) -> str:
        """The number of graphs and tasks."""
        return f"{self.graphs:,} graph{'' if self.graphs == 1 else 's'} with {self.tasks:,} tasks"

    def cost(self, seconds: float) -> str:
        """Return CPU time per task."""
        return readable(seconds / self.tasks, METRICS[CPU])

    def calls(self, step: Step) -> str:
        """Return the calls per task; empty if they were not counted."""
        return "" if step.calls is None else readable(step.calls / self.tasks, METRICS[CALLS])

    def part(self, step: Step) -> float:
        """Return a step as a fraction of the whole way."""
        return step.seconds / self.seconds if self.seconds else 0.0

    @property
    def heads_by_scale(self) -> list[str]:
        """Heads of columns for each size, with their classes."""
        return [f"n wide|at {scale:,}" for scale in self.tasks_by_scale]

    def costs_by_scale(self, step: Step) -> Iterator[str]:
        """Yield the CPU time per task at each size; empty texts where it is not known."""
        for scale, tasks in self.tasks_by_scale.items():
            is_known = tasks and scale in step.by_scale
            yield readable(step.by_scale[scale] / tasks, METRICS[CPU]) if is_known else ""

    def growth(self, step: Step) -> tuple[str, str]:
        """Return the exponent with which a step grows with the number of tasks, and its bounds.

        Empty if it cannot be told.
        """
        points = [(n, step.by_scale.get(scale, 0.0)) for scale, n in self.tasks_by_scale.items()]
        numbers = {count for count, _ in points}
        is_known = all(count and seconds for count, seconds in points)
        if step.name == ONCE or len(numbers) < MIN_SCALES or not is_known:
            return "", ""
        growth = exponent(points, sum(self.tasks_by_scale.values()), DRIFT)
        ends = (growth.value, growth.low, growth.high)
        value, low, high = (round(end, 2) + 0.0 for end in ends)  # never -0.00
        return f"{value:.2f}", f"at least {low:.2f}, at most {high:.2f}"


def ledger_of(backend: BackendResult, files: Sequence[IntakeFile]) -> Ledger | None:
    """Return the ledger of a backend that timed steps; None of any other.

    Args:
        backend: what it found.
        files: of its recordings, in their order; costs by size are left out without them.
    """
    if not (backend.costs and INTAKE & backend.costs.whole.keys() and backend.window.tasks):
        return None
    window = backend.window
    steps = [*_of_client(window), *_of_steps(backend, files)]
    scales = window.scales if len(window.scales) >= MIN_SCALES else ()
    tasks = {
        scale: sum(segment.tasks for segment in window.segments if segment.scale == scale)
        for scale in scales
    }
    return Ledger(steps, int(backend.costs.whole[CALLS]), window.tasks, tasks)


def _of_client(window: Window) -> Iterator[Step]:
    for name in CLIENT:
        by_scale: dict[int, float] = defaultdict(float)
        spent = [
            (segment.scale, segment.client[name])
            for segment in window.segments
            if name in segment.client
        ]
        for scale, seconds in spent:
            by_scale[scale] += seconds
        if spent:
            yield Step("client", name, sum(by_scale.values()), by_scale)


def _of_steps(backend: BackendResult, files: Sequence[IntakeFile]) -> list[Step]:
    """Return the steps that cost anything, in the order in which a graph passes them."""
    assert backend.costs
    scales = [segment.scale for segment in backend.window.segments]
    timed = {}
    for function in backend.costs.functions:
        step = step_of(function.function)
        if step and any(function.total.values()):
            by_scale = _seconds_by_scale(step, scales, files)
            calls = None if step in UNCOUNTED else function.total.get(CALLS, 0.0)
            timed[step] = Step("scheduler", step, function.total.get(CPU, 0.0), by_scale, calls)
    return [timed[step] for step in STEPS if step in timed]


def _seconds_by_scale(
    step: str, scales: Sequence[int], files: Sequence[IntakeFile]
) -> dict[int, float]:
    if len(files) != len(scales):  # one was lost, and nobody knows which
        return {}
    sums: dict[int, float] = defaultdict(float)
    for scale, file in zip(scales, files, strict=True):
        sums[scale] += file.steps[step].cpu if step in file.steps else 0.0
    return sums
