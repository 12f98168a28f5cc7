"""Tests of intake in virtual time: whole sessions."""

from __future__ import annotations

import pytest
from support import Project

pytestmark = pytest.mark.usefixtures("apart")  # each session needs an interpreter of its own

BODY = """
@pytest.mark.schedprof(
    "calls(intake:*) <= 0.02", "cpu(intake:states) <= 1s", backend="intake", cluster="virtual",
    workers=8, rounds=2,
)
def test_it(schedprof_scheduler):
    graph = {f"x{n}": (inc, n) for n in range(200)}
    wait(schedprof_scheduler.client.get(graph, list(graph), sync=False))
"""


@pytest.mark.slow
def test_steps_are_timed_where_time_is_virtual(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    project.run_test(BODY, timeout_s=100).assert_outcomes(passed=1)
    (backend,) = project.result().backends
    assert backend.costs
    costs = {cost.function: cost.total for cost in backend.costs.functions}
    assert costs["intake:ordering"]["intake_calls"] == costs["intake:rest"]["intake_calls"] == 2
    whole = backend.costs.whole["intake_cpu"]
    assert 0 < costs["intake:ordering"]["intake_cpu"] < whole < backend.window.cpu_seconds
    once = costs["intake:imports"]["intake_cpu"]
    assert whole + once == pytest.approx(sum(cost["intake_cpu"] for cost in costs.values()))
