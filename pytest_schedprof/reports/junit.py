"""Properties of a test in JUnit's XML: its verdicts and its costs.

A name may occur several times, as JUnit allows. Figures are plain numbers, for programs that draw
them: shares as fractions of one, costs per task in the metric's base unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_schedprof.analysis.series import amounts_of
from pytest_schedprof.model.comparison import Outcome
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.presentation.changes import sentence

Property = tuple[str, str]

OWNERS_TOLD = 5


def properties_of(result: Result, directory: Path | None) -> Iterator[Property]:
    """Return all properties; without a directory, the place of the artifacts is missing."""
    yield "schedprof_verdict", result.verdict.value
    if directory is not None:
        yield "schedprof_artifacts", str(directory)
    for limit in result.limits:
        yield "schedprof_limit", f"{limit.verdict.value}: {limit.limit}"
    for comparison in result.comparisons:
        for change in comparison.of(Outcome.REGRESSED):
            yield "schedprof_regressed", sentence(comparison, change)
    for text in result.troubles:
        yield "schedprof_trouble", text
    for backend in result.backends:
        yield from _of_backend(backend)


def _of_backend(backend: BackendResult) -> Iterator[Property]:
    start = f"schedprof_{backend.backend}"
    yield f"{start}_tasks", str(backend.window.tasks)
    for (metric, subject), amount in amounts_of(backend):
        if not subject:  # not of functions and owners, which are many
            yield f"{start}_{metric}", _figure(amount.value)
    for each in backend.shares.owners[:OWNERS_TOLD] if backend.shares else ():
        yield f"{start}_share_{each.owner}", _figure(each.share.value)
    for name in backend.artifacts:
        yield f"{start}_artifact", name


def _figure(amount: float) -> str:
    return f"{amount:.6g}"
