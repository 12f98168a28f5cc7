"""Costs of a run in the format of github-action-benchmark, which draws them over commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from pytest_schedprof.analysis.series import amounts_of
from pytest_schedprof.model.metric import BYTES, METRICS, TIME
from pytest_schedprof.model.result import BackendResult, Result

MICROSECONDS = 1e6


def as_benchmarks(results: Sequence[Result]) -> str:
    """Return what each test cost the scheduler, for the tool `customSmallerIsBetter`.

    Shares are left out: a smaller share is not better, because the others grow by it.
    """
    rows = [row for each in results if each.is_usable for row in _of_test(each)]
    return msgspec.json.format(msgspec.json.encode(rows), indent=2).decode()


def _of_test(result: Result) -> Iterator[dict[str, str | float]]:
    for backend in result.backends:
        for (metric, subject), amount in amounts_of(backend):
            if not subject:
                row: dict[str, str | float] = {
                    "name": f"{result.test_id} {backend.backend} {metric}",
                    "unit": _unit(metric),
                    "value": amount.value * _factor(metric),
                    "extra": _extra(result, backend),
                }
                if scatter := _range(backend, metric):
                    row["range"] = scatter
                yield row


def _factor(metric: str) -> float:
    return MICROSECONDS if METRICS[metric].units is TIME else 1.0


def _unit(metric: str) -> str:
    row = METRICS[metric]
    name = {id(TIME): "us", id(BYTES): "B"}.get(id(row.units), row.noun)
    return name if row.is_peak else f"{name}/task"


def _range(backend: BackendResult, metric: str) -> str:
    """Return the standard deviation between rounds; empty for a single round."""
    scatter = backend.costs.scatter.get(metric) if backend.costs else None
    return f"± {scatter:.2%}" if scatter else ""


def _extra(result: Result, backend: BackendResult) -> str:
    environment = result.environment
    versions = environment.versions if environment else {}
    facts = [f"{backend.window.tasks} tasks"]
    if environment:
        facts.append(f"Python {environment.scheduler_python}")
        facts.append(environment.scheduler_machine)
    facts.append(f"distributed {versions['distributed']}" if "distributed" in versions else "")
    return ", ".join(filter(None, facts))
