"""Tests of what the scheduler does from time to time, which `counts` counts in virtual time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support import Project

from pytest_schedprof.agent import counts
from pytest_schedprof.agent.choice import MOST_ALONE
from pytest_schedprof.agent.decisions import WORLD
from pytest_schedprof.model.result import BackendResult

COUNTED = """
@pytest.mark.schedprof(rounds={rounds}, workers=2, cluster_options={{"duration": "{duration}"}})
def test_it(schedprof_scheduler):
    client = schedprof_scheduler.client
    wait(client.map(inc, range(40), pure=False))
    client.scheduler_info(n_workers=-1)
"""

BALANCE = "distributed.stealing:WorkStealing.balance"
IDENTITY = "distributed.scheduler:Scheduler.identity"
HEARTBEAT = "distributed.scheduler:Scheduler.heartbeat_worker"
BY_THE_CLOCK = (BALANCE, IDENTITY, HEARTBEAT)
OF_HEARTBEATS = "distributed.scheduler:heartbeat_interval"
"""What only heartbeats call."""


def counted(project: Project, cluster: str, duration: str) -> BackendResult:
    body = COUNTED.format(rounds=1 if cluster == "virtual" else 2, duration=duration)
    given = ("--schedprof=counts", f"--schedprof-cluster={cluster}")
    limits = (
        f"--schedprof-limit=calls({name}) <= 1000000" for name in (BALANCE, IDENTITY, HEARTBEAT)
    )
    project.run_test(body, *given, *limits).assert_outcomes(passed=1)
    (found,) = project.result().backends
    return found


def calls(found: BackendResult) -> dict[str, float]:
    """Calls of each function by its name."""
    assert found.costs
    return {
        each.function: each.total["calls"]
        for each in found.costs.functions
        if each.total.get("calls")
    }


@pytest.mark.slow
def test_in_virtual_time_it_is_counted(project: Project) -> None:
    found = calls(counted(project, "virtual", "1s"))
    # 20 seconds, in which stealing looks at its workers every second, for 40 tasks.
    assert found[BALANCE] in (20, 21)
    assert found[IDENTITY] > 5  # every two seconds
    assert 2 * 20 <= found[HEARTBEAT] < MOST_ALONE
    assert OF_HEARTBEATS not in found


@pytest.mark.slow
def test_heartbeats_of_long_tests_are_counted_up_to_a_number(project: Project) -> None:
    assert calls(counted(project, "virtual", "30s"))[HEARTBEAT] == MOST_ALONE


@pytest.mark.slow
def test_in_real_time_it_is_not(project: Project) -> None:
    found = calls(counted(project, "simulated", "50ms"))
    assert found
    assert not set(BY_THE_CLOCK) & set(found)


def test_it_is_not_counted_among_thousands_of_workers() -> None:
    few, many = (
        SimpleNamespace(extensions={WORLD: object()}, workers=range(number))
        for number in (counts.MOST_WORKERS, counts.MOST_WORKERS + 1)
    )
    left_out, alone = counts.clockwork_of(many)
    assert BALANCE in left_out
    assert HEARTBEAT in alone
    assert counts.clockwork_of(few) == (counts.NOT_COUNTED, counts.HEARTBEATS)
