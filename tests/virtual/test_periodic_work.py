"""Tests of what the scheduler does from time to time, which `counts` counts in virtual time."""

from __future__ import annotations

import sys

from support import Project

COUNTED = """
@pytest.mark.schedprof(rounds={rounds}, workers=2, cluster_options={{"duration": "1s"}})
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(40), pure=False))
"""

BALANCE = "distributed.stealing:WorkStealing.balance"
HEARTBEAT = "distributed.scheduler:Scheduler.heartbeat_worker"


def calls(project: Project, cluster: str) -> dict[str, float]:
    """Calls of each function by its name."""
    given = ("--schedprof=counts", f"--schedprof-cluster={cluster}")
    body = COUNTED.format(rounds=1 if cluster == "virtual" else 2)
    if cluster != "virtual":
        body = body.replace("1s", "50ms")
    project.run_test(body, *given).assert_outcomes(passed=1)
    (counted,) = project.result().backends
    assert counted.costs
    return {each.function: each.total["calls"] for each in counted.costs.functions}


def test_in_virtual_time_it_is_counted(project: Project) -> None:
    found = calls(project, "virtual")
    if hasattr(sys, "monitoring"):
        # 20 seconds, in which stealing looks at its workers every second, for 40 tasks.
        assert found[BALANCE] in (20, 21)
    else:
        assert not found.get(BALANCE)  # an earlier Python takes too long
    assert not found.get(HEARTBEAT)


def test_in_real_time_it_is_not(project: Project) -> None:
    found = calls(project, "simulated")
    assert found
    assert not found.get(BALANCE)
