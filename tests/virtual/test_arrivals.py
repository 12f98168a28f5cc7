"""Test of workers that arrive within the window, with the scheduler's comparison of versions."""

from __future__ import annotations

import pytest
from support import Project

STORM = """
@pytest.mark.schedprof(
    "growth(bytecodes, distributed.versions:error_message*) <= 1.2",
    "growth(bytecodes, distributed.scheduler:Scheduler.add_worker) <= 1.2",
    backend="counts", scale=[20, 40, 80], workers=1, cluster="virtual",
)
def test_it(schedprof_scheduler, schedprof_scale):
    client, there = schedprof_scheduler.client, len(schedprof_scheduler.workers)
    schedprof_scheduler.plan(0, "arrive", range(there, schedprof_scale))
    client.wait_for_workers(schedprof_scale)
    wait(client.map(inc, range(5), pure=False))
"""


@pytest.mark.slow
def test_each_newcomer_is_compared_with_all_others(project: Project) -> None:
    project.run_test(STORM).assert_outcomes(failed=1)
    compared, joined = project.result().backends[0].limits
    assert (compared.verdict.value, joined.verdict.value) == ("fail", "pass")
    assert 1.5 < compared.findings[0].estimate.value < 2
