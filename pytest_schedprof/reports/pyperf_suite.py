"""Costs of a run in the format of pyperf, which compares two such files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from pytest_schedprof.analysis.series import amounts_of
from pytest_schedprof.model.metric import BYTES, CPU, METRICS, TIME
from pytest_schedprof.model.result import BackendResult, Result

VERSION = "1.0"
"""Of pyperf's format."""


def as_pyperf(results: Sequence[Result]) -> str:
    """Return a suite with a benchmark for each test, backend and metric.

    CPU time has a value for each round, from which pyperf computes significance; other figures are
    kept for all rounds together. Figures of 0 are left out: pyperf knows none.
    """
    benchmarks = [each for result in results if result.is_usable for each in _of_test(result)]
    content = {"version": VERSION, "benchmarks": benchmarks}
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode()


def _of_test(result: Result) -> Iterator[dict[str, object]]:
    for backend in result.backends:
        for (metric, subject), amount in amounts_of(backend):
            if not subject and amount.value > 0:
                name = f"{result.test_id} {backend.backend} {metric}"
                values = _rounds(backend) if metric == CPU else []
                yield {
                    "metadata": {"name": name, "unit": _unit(metric), **_facts(result, backend)},
                    "runs": [{"values": [value]} for value in values or [amount.value]],
                }


def _rounds(backend: BackendResult) -> list[float]:
    """Return the CPU time per task of each round; none if sizes differ or a round has no tasks."""
    window = backend.window
    costs = [each.cpu_seconds / each.tasks for each in window.segments if each.tasks]
    is_whole = len(costs) == len(window.segments) == window.rounds and all(costs)
    return costs if is_whole and not window.scales else []


def _unit(metric: str) -> str:
    units = METRICS[metric].units
    return "second" if units is TIME else "byte" if units is BYTES else "integer"


def _facts(result: Result, backend: BackendResult) -> dict[str, object]:
    """Return what pyperf's `metadata` and `compare_to -v` show."""
    environment = result.environment
    known = {
        "description": f"per task, over {backend.window.tasks} tasks",
        "date": result.started_at,
        "python_version": environment.scheduler_python if environment else "",
        "cpu_model_name": environment.scheduler_machine if environment else "",
    }
    return {name: value for name, value in known.items() if value}
