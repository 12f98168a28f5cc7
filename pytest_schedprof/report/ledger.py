"""The ledger of graph intake: the way of a graph from the client to its first task, by step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_schedprof.formats.counted import IntakeFile
from pytest_schedprof.judge.costs import DRIFT, MIN_SCALES, exponent
from pytest_schedprof.model.evidence import ONCE, STEPS, step_of
from pytest_schedprof.model.metric import CLIENT, INTAKE, METRICS, STEP_METRICS, readable
from pytest_schedprof.model.result import BackendResult, Window
from pytest_schedprof.report.words import percent

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


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A phase of the client or a step of the scheduler."""

    where: str
    name: str
    what: str
    calls: str
    cost: str
    part: float
    """Fraction of the whole way."""
    share: str
    by_scale: tuple[str, ...]
    growth: str
    growth_bounds: str
    hue: float | None
    """Colour; None in the client."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """All that the way of a graph cost."""

    total: str
    note: str
    scales: tuple[str, ...]
    rows: tuple[LedgerRow, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    """Seconds of one row, in all and by the size of the workload."""

    where: str
    name: str
    seconds: float
    by_scale: Mapping[int, float]
    calls: float | None = None


def ledger_of(backend: BackendResult, files: Sequence[IntakeFile]) -> Ledger | None:
    """Return the ledger of a backend that timed steps; None of any other.

    Args:
        backend: what it found.
        files: of its recordings, in their order; costs by size are left out without them.
    """
    if not (backend.costs and INTAKE & backend.costs.whole.keys() and backend.window.tasks):
        return None
    window = backend.window
    lines = [*_of_client(window), *_of_steps(backend, files)]
    total = sum(line.seconds for line in lines)
    scales = window.scales if len(window.scales) >= MIN_SCALES else ()
    rows = tuple(_row(line, total, window, scales) for line in lines)
    graphs = int(backend.costs.whole[CALLS])
    return Ledger(
        total=_per_task(total, window.tasks),
        note=f"{graphs:,} graph{'' if graphs == 1 else 's'} with {window.tasks:,} tasks",
        scales=tuple(f"{scale:,}" for scale in scales),
        rows=rows,
    )


def _of_client(window: Window) -> Iterator[_Line]:
    for name in CLIENT:
        by_scale: dict[int, float] = defaultdict(float)
        spent = [(each.scale, each.client[name]) for each in window.segments if name in each.client]
        for scale, seconds in spent:
            by_scale[scale] += seconds
        if spent:
            yield _Line("client", name, sum(by_scale.values()), by_scale)


def _of_steps(backend: BackendResult, files: Sequence[IntakeFile]) -> list[_Line]:
    """Return the steps that cost anything, in the order in which a graph passes them."""
    assert backend.costs
    scales = [segment.scale for segment in backend.window.segments]
    found = {}
    for each in backend.costs.functions:
        step = step_of(each.function)
        if step and any(each.total.values()):
            by_scale = _seconds_by_scale(step, scales, files)
            calls = None if step in UNCOUNTED else each.total.get(CALLS, 0.0)
            found[step] = _Line("scheduler", step, each.total.get(CPU, 0.0), by_scale, calls)
    return [found[step] for step in STEPS if step in found]


def _seconds_by_scale(
    step: str, scales: Sequence[int], files: Sequence[IntakeFile]
) -> dict[int, float]:
    if len(files) != len(scales):  # one was lost, and nobody knows which
        return {}
    sums: dict[int, float] = defaultdict(float)
    for scale, file in zip(scales, files, strict=True):
        sums[scale] += file.steps[step].cpu if step in file.steps else 0.0
    return sums


def _row(line: _Line, total: float, window: Window, scales: Sequence[int]) -> LedgerRow:
    part = line.seconds / total if total else 0.0
    tasks = {
        scale: sum(each.tasks for each in window.segments if each.scale == scale)
        for scale in scales
    }
    growth, bounds = _growth(line, tasks)
    return LedgerRow(
        where=line.where,
        name=line.name,
        what=(IN_CLIENT if line.where == "client" else STEPS)[line.name],
        calls="" if line.calls is None else readable(line.calls / window.tasks, METRICS[CALLS]),
        cost=_per_task(line.seconds, window.tasks),
        part=part,
        share=percent(part),
        by_scale=tuple(
            _per_task(line.by_scale[scale], tasks[scale]) if scale in line.by_scale else ""
            for scale in scales
        ),
        growth=growth,
        growth_bounds=bounds,
        hue=None if line.where == "client" else round(list(STEPS).index(line.name) * HUES),
    )


def _growth(line: _Line, tasks: Mapping[int, int]) -> tuple[str, str]:
    """Return the exponent with which a row grows with the number of tasks, and its bounds.

    Empty if it cannot be told.
    """
    if line.name == ONCE:
        return "", ""
    points = [(count, line.by_scale.get(scale, 0.0)) for scale, count in tasks.items()]
    numbers = {count for count, _ in points}
    if len(numbers) < MIN_SCALES or not all(count and seconds for count, seconds in points):
        return "", ""
    found = exponent(points, sum(tasks.values()), DRIFT)
    value, low, high = (round(each, 2) + 0.0 for each in (found.value, found.low, found.high))
    return f"{value:.2f}", f"at least {low:.2f}, at most {high:.2f}"  # never -0.00


def _per_task(seconds: float, tasks: int) -> str:
    return readable(seconds / tasks, METRICS[CPU]) if tasks else ""
