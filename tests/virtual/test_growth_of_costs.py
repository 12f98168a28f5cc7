"""Tests of growth in virtual time: by the number of workers, of tasks, and of prefixes."""

from __future__ import annotations

import pytest
from support import Project

BODY = """
def let_arrive(scheduler, count):
    scheduler.plan(0, "arrive", range(len(scheduler.workers), count))
    scheduler.client.wait_for_workers(count)

@pytest.mark.schedprof("growth(bytecodes) <= 0.05", scale=[10, 40, 160], workers=1)
def test_workers(schedprof_scheduler, schedprof_scale):
    let_arrive(schedprof_scheduler, schedprof_scale)
    with schedprof_scheduler.measure():
        wait(schedprof_scheduler.client.map(inc, range(400), pure=False))

@pytest.mark.schedprof(
    "growth(bytecodes, distributed.versions:error_message*) <= 1.2",
    "growth(bytecodes, distributed.scheduler:Scheduler.add_worker) <= 1.2",
    scale=[20, 40], workers=1,
)
def test_arrivals(schedprof_scheduler, schedprof_scale):
    let_arrive(schedprof_scheduler, schedprof_scale)
    wait(schedprof_scheduler.client.map(inc, range(5), pure=False))

@pytest.mark.schedprof(
    "growth(bytecodes) <= 1.05", "growth(transitions) <= 1.05", scale=[100, 400], workers=10
)
def test_tasks(schedprof_scheduler, schedprof_scale):
    wait(schedprof_scheduler.client.map(inc, range(schedprof_scale), pure=False))

@pytest.mark.schedprof("growth(transitions) <= 0.05", scale=[4, 40], workers=20)
def test_prefixes(schedprof_scheduler, schedprof_scale):
    client = schedprof_scheduler.client
    names = [f"{chr(97 + n % 20)}{chr(97 + n // 20)}" for n in range(schedprof_scale)]
    numbers = range(80 // schedprof_scale)
    wait([future for name in names
          for future in client.map(inc, numbers, key=name, pure=False)])
"""


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_growth_is_exact(project: Project) -> None:
    options = ("--schedprof=counts", "--schedprof-cluster=virtual")
    project.run_test(BODY, *options, timeout_s=180).assert_outcomes(passed=3, failed=1)
    limits = {name: result.backends[0].limits for name, result in project.results().items()}

    # Of the same tasks, so the exponent is 0 if nothing depends on the number of workers.
    estimate = limits["test_workers"][0].findings[0].estimate
    assert 0 < estimate.value < 0.05
    assert estimate.low == estimate.high == estimate.value

    # The scheduler compares the versions of a newcomer with those of all workers.
    compared, joined = limits["test_arrivals"]
    assert (compared.verdict.value, joined.verdict.value) == ("fail", "pass")
    assert 1.5 < compared.findings[0].estimate.value < 2
