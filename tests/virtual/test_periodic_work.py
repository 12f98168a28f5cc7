"""Tests of what the scheduler does from time to time, which `counts` counts in virtual time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support import Project

from pytest_schedprof.agent import counts
from pytest_schedprof.agent.choice import MOST_ALONE
from pytest_schedprof.agent.decisions import WORLD

BALANCE = "distributed.stealing:WorkStealing.balance"
IDENTITY = "distributed.scheduler:Scheduler.identity"
HEARTBEAT = "distributed.scheduler:Scheduler.heartbeat_worker"
BY_THE_CLOCK = {BALANCE, IDENTITY, HEARTBEAT}
OF_HEARTBEATS = "distributed.scheduler:heartbeat_interval"
"""What only heartbeats call."""

BODY = """
def work(scheduler):
    wait(scheduler.client.map(inc, range(40), pure=False))
    scheduler.client.scheduler_info(n_workers=-1)

def counted(duration, **options):
    limits = [f"calls({name}) <= 1000000" for name in NAMES]
    return pytest.mark.schedprof(
        *limits, backend="counts", cluster_options={"duration": duration}, **options
    )

@counted("1s", cluster="virtual", workers=2)
def test_virtual(schedprof_scheduler):
    work(schedprof_scheduler)

@counted("30s", cluster="virtual", workers=8)
def test_long(schedprof_scheduler):
    work(schedprof_scheduler)

@counted("50ms", cluster="simulated", workers=2, rounds=2)
def test_simulated(schedprof_scheduler):
    work(schedprof_scheduler)
"""


@pytest.mark.slow
def test_periodic_work_is_counted_where_time_is_virtual(project: Project) -> None:
    project.run_test(BODY.replace("NAMES", f"{sorted(BY_THE_CLOCK)}")).assert_outcomes(passed=3)
    calls = {}
    for name, result in project.results().items():
        (backend,) = result.backends
        assert backend.costs
        functions = backend.costs.functions
        calls[name] = {f.function: f.total["calls"] for f in functions if f.total.get("calls")}

    # 20 seconds, in which stealing looks at its workers every second, for 40 tasks.
    assert calls["test_virtual"][BALANCE] in (20, 21)
    assert calls["test_virtual"][IDENTITY] > 5  # every two seconds
    assert 2 * 20 <= calls["test_virtual"][HEARTBEAT] < MOST_ALONE
    assert OF_HEARTBEATS not in calls["test_virtual"]

    assert calls["test_long"][HEARTBEAT] == MOST_ALONE

    assert calls["test_simulated"]
    assert not BY_THE_CLOCK & calls["test_simulated"].keys()


def test_it_is_not_counted_among_thousands_of_workers() -> None:
    few, many = (
        SimpleNamespace(extensions={WORLD: object()}, workers=range(number))
        for number in (counts.MOST_WORKERS, counts.MOST_WORKERS + 1)
    )
    left_out, alone = counts.clockwork_of(many)
    assert BALANCE in left_out
    assert HEARTBEAT in alone
    assert counts.clockwork_of(few) == (counts.NOT_COUNTED, counts.HEARTBEATS)
