"""One test's result for the terminal, with what opens each of its files."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_schedprof.model.result import Result
from pytest_schedprof.reports.lines import Line
from pytest_schedprof.reports.openers import opener_of
from pytest_schedprof.reports.terminal import (
    baseline_lines,
    limit_lines,
    profile_lines,
    version_lines,
)


def test_lines(result: Result, directory: str, verbosity: int) -> Iterator[Line]:
    """What was measured, what was decided, where it was, and what is kept of it."""
    yield from profile_lines(result, verbosity)
    yield from limit_lines([result], 1)
    if result.outcome == "failed":  # those of others are told with their limits
        yield from (Line(f"  {text}", {"red": True}) for text in result.troubles)
    yield from (Line(f"  not judged: {text}") for text in result.unjudged)
    yield from baseline_lines([result], verbosity)
    yield from version_lines([result])
    yield from (Line(text) for text in _facts(result))
    yield Line(f"artifacts in {directory}:")
    yield from _file_lines(result)


def _facts(result: Result) -> Iterator[str]:
    if cluster := result.cluster:
        yield f"cluster: {cluster.kind}, {cluster.workers} workers, {cluster.threads} threads"
    if environment := result.environment:
        versions = environment.versions
        told = [f"Python {environment.scheduler_python}", environment.scheduler_machine]
        told += [f"{name} {versions[name]}" for name in ("distributed", "dask") if name in versions]
        yield f"measured: {result.started_at}, {', '.join(filter(None, told))}"


def _file_lines(result: Result) -> Iterator[Line]:
    names = [name for backend in result.backends for name in backend.artifacts]
    names += [
        name for each in result.backends for target in each.targets for name in target.artifacts
    ]
    names += [name for each in result.evidence for name in each.artifacts]
    names.append("result.json")
    width = max(map(len, names))
    for name in names:
        yield Line(f"  {name:<{width}}  {opener_of(name)}".rstrip())
