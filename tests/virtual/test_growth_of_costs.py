"""Tests of growth in virtual time: by the number of workers, of tasks, and of prefixes."""

from __future__ import annotations

import pytest
from support import Project

OPTIONS = ("--schedprof=counts", "--schedprof-cluster=virtual")

WORKERS = """
@pytest.mark.schedprof("{limit}", backend="counts", scale=[10, 40, 160], workers=1)
def test_workers(schedprof_scheduler, schedprof_scale):
    client = schedprof_scheduler.client
    schedprof_scheduler.plan(0, "arrive", range(len(schedprof_scheduler.workers), schedprof_scale))
    client.wait_for_workers(schedprof_scale)
    with schedprof_scheduler.measure():
        wait(client.map(inc, range(400), pure=False))
"""

TASKS = """
@pytest.mark.schedprof("growth(bytecodes) <= 1.05", "growth(transitions) <= 1.05",
    backend="counts", scale=[400, 1_600], workers=10)
def test_tasks(schedprof_scheduler, schedprof_scale):
    wait(schedprof_scheduler.client.map(inc, range(schedprof_scale), pure=False))

@pytest.mark.schedprof("growth(transitions) <= 0.05", backend="counts", scale=[4, 40], workers=20)
def test_prefixes(schedprof_scheduler, schedprof_scale):
    client = schedprof_scheduler.client
    names = [f"{chr(97 + n % 20)}{chr(97 + n // 20)}" for n in range(schedprof_scale)]
    each = 200 // schedprof_scale
    wait([future for name in names
          for future in client.map(inc, range(each), key=name, pure=False)])
"""


@pytest.mark.slow
def test_growth_by_workers_is_exact(project: Project) -> None:
    """Of the same tasks, so the exponent is 0 if nothing depends on the number of workers."""
    project.run_test(WORKERS.format(limit="growth(bytecodes) <= 0.05"), *OPTIONS).assert_outcomes(
        passed=1
    )
    (backend,) = project.result().backends
    (limit,) = backend.limits
    (finding,) = limit.findings
    assert 0 < finding.estimate.value < 0.05
    assert finding.estimate.low == finding.estimate.high == finding.estimate.value


@pytest.mark.slow
def test_growth_by_tasks_and_by_prefixes(project: Project) -> None:
    project.run_test(TASKS, *OPTIONS).assert_outcomes(passed=2)
