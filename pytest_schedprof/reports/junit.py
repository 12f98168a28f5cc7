"""Properties of a test in JUnit's XML: what was decided, and the figures that it costs.

A name may come several times, as JUnit allows. Figures are plain numbers, for programs that draw
them: shares as parts of one, costs per task in the metric's own unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_schedprof.comparison.words import sentence
from pytest_schedprof.model.comparison import Outcome
from pytest_schedprof.model.metric import METRICS
from pytest_schedprof.model.result import BackendResult, Result

Property = tuple[str, str]

OWNERS = 5


def properties_of(result: Result, directory: Path | None) -> Iterator[Property]:
    """All of them; of a test that left no artifacts without their place."""
    yield "schedprof_verdict", result.verdict.value
    if directory is not None:
        yield "schedprof_artifacts", str(directory)
    for limit in result.limits:
        yield "schedprof_limit", f"{limit.verdict.value}: {limit.limit}"
    for comparison in result.comparisons:
        for change in comparison.of(Outcome.REGRESSED):
            yield "schedprof_regressed", sentence(change)
    for text in result.troubles:
        yield "schedprof_trouble", text
    for backend in result.backends:
        yield from _of_backend(backend)


def _of_backend(backend: BackendResult) -> Iterator[Property]:
    start, window = f"schedprof_{backend.backend}", backend.window
    yield f"{start}_tasks", str(window.tasks)
    if window.tasks:
        yield f"{start}_cpu", _figure(window.cpu_seconds / window.tasks)
    for name, amount in (backend.costs.whole if backend.costs else {}).items():
        is_peak = METRICS[name].is_peak
        if name != "cpu" and (is_peak or window.tasks):
            yield f"{start}_{name}", _figure(amount if is_peak else amount / window.tasks)
    for each in backend.shares.owners[:OWNERS] if backend.shares else ():
        yield f"{start}_share_{each.owner}", _figure(each.share.value)
    for name in backend.artifacts:
        yield f"{start}_artifact", name


def _figure(amount: float) -> str:
    return f"{amount:.6g}"
