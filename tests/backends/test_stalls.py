"""Tests of stalls: how long one callback occupies the loop, on real schedulers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from time import perf_counter, thread_time
from typing import Any

import pytest
from at_work import inc
from distributed import Client, wait
from injection import plant, uproot

from pytest_schedprof.agent import names
from pytest_schedprof.agent.stalls import LONG_S, Stalls
from pytest_schedprof.backends.stalls import StallsBackend
from pytest_schedprof.clusters.own import SimulatedCluster
from pytest_schedprof.clusters.under_test import clean
from pytest_schedprof.control.control import Control
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.measuring.assessment import assess
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import MeasuredCosts
from pytest_schedprof.report.tables import describe

MODULE = "distributed.scheduler"
FINISHED = f"{MODULE}:Scheduler.handle_task_finished"

BURNT_S = 0.3

ONCE = "not vars(type(self)).get('burnt') and setattr(type(self), 'burnt', True) is None"
BURN = (
    "import time\n"
    f"if {ONCE}:\n"
    f" until = time.thread_time() + {BURNT_S}\n"
    " while time.thread_time() < until: pass"
)
SLEEP = f"import time\nif {ONCE}: time.sleep({BURNT_S})"
COLLECT = f"import gc\nif {ONCE}:\n for _ in range(5): gc.collect()"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    cluster = SimulatedCluster(8, timeout_s=200)
    yield cluster
    cluster.close()


@pytest.fixture
def client(cluster: SimulatedCluster) -> Iterator[Client]:
    with Client(cluster.address, set_as_default=False) as client:
        work(client)  # what is imported for the first task is a stall
        yield client
        restore(client)


def restore(client: Client) -> None:
    client.run_on_scheduler(uproot, module=MODULE)
    client.run_on_scheduler(in_tables)


def work(client: Client) -> None:
    with client.as_current():
        wait(client.map(inc, range(50), pure=False), timeout=60)


def recorded(control: Control, client: Client, body: Callable[[Client], None] = work) -> Recorder:
    recorder = Recorder(control, [StallsBackend(rate_hz=100, options={})], 200.0)
    with recorder.round():
        body(client)
    clean(control)
    return recorder


def costs_of(recorder: Recorder) -> MeasuredCosts:
    assessment = assess(recorder, (), None)
    assert assessment.errors == ()
    (result,) = assessment.backends
    assert result.costs
    return result.costs


def longest(costs: MeasuredCosts) -> dict[str, float]:
    return {function.function: function.total["stall"] for function in costs.functions}


def burnt(client: Client, statement: str) -> None:
    """Change a function so that its next call does something once."""

    def again(dask_scheduler: Any = None) -> None:
        from distributed import Scheduler

        if "burnt" in vars(Scheduler):
            delattr(Scheduler, "burnt")

    client.run_on_scheduler(again)
    qualname = FINISHED.partition(":")[2]
    client.run_on_scheduler(plant, module=MODULE, qualname=qualname, statement=statement)
    client.run_on_scheduler(in_tables)


def in_tables(dask_scheduler: Any = None) -> None:
    """Let the scheduler's table of handlers have the function that was planted, or its own."""
    dask_scheduler.stream_handlers["task-finished"] = dask_scheduler.handle_task_finished


@pytest.mark.slow
def test_a_stall_is_named_and_goes_with_its_cause(control: Control, client: Client) -> None:
    before = costs_of(recorded(control, client))
    assert before.whole["stall"] < BURNT_S
    burnt(client, BURN)
    stalled = costs_of(recorded(control, client))
    assert BURNT_S <= longest(stalled)[FINISHED] < 1.5 * BURNT_S
    assert stalled.whole["stall"] == max(longest(stalled).values())
    assert stalled.whole["stall_wall"] >= stalled.whole["stall"]
    assert stalled.whole["stall_p90"] < BURNT_S / 2  # it happened once
    restore(client)
    assert costs_of(recorded(control, client)).whole["stall"] < BURNT_S


def test_what_only_takes_time_by_the_clock_is_no_stall(control: Control, client: Client) -> None:
    """As when a neighbour on the machine has the processor."""
    burnt(client, SLEEP)
    costs = costs_of(recorded(control, client))
    assert costs.whole["stall_wall"] >= BURNT_S
    assert costs.whole["stall"] < BURNT_S / 2


def burn(seconds: float, dask_scheduler: Any = None) -> None:
    end = thread_time() + seconds
    while thread_time() < end:
        pass


def long_handler() -> None:
    burn(0.03)


async def next_handler() -> None:
    burn(0.015)


async def both_handlers(stalls: Stalls) -> None:
    stalls.begin()
    asyncio.get_running_loop().call_soon(stalls.of(long_handler))
    await asyncio.ensure_future(stalls.of(next_handler)())  # as dask calls it: by a task
    stalls.end()


def test_a_coroutine_that_runs_right_after_a_longer_handler_is_named() -> None:
    stalls = Stalls(is_virtual=False)
    asyncio.run(both_handlers(stalls))
    names = {f"{__name__}:long_handler", f"{__name__}:next_handler"}
    assert names <= stalls.record()["functions"].keys()
    assert not any("handle_later" in name for name in stalls.record()["functions"])


def test_the_longest_by_each_clock_may_be_of_two_callbacks() -> None:
    stalls = Stalls(is_virtual=False)
    for wall, burning in ((2.0, 0.0), (0.5, 0.02)):
        stalls.read(perf_counter())
        burn(burning)
        stalls.note(inc, perf_counter(), wall)
    (times,) = stalls.record()["functions"].values()
    assert times["wall"] == 2.0
    assert 0.02 <= times["cpu"] < 0.5


def test_the_longest_may_be_a_short_one() -> None:
    stalls = Stalls(is_virtual=False)
    assert stalls.record()["longest"] == 0.0
    stalls.short[30] = 1
    before = perf_counter()
    stalls.read(before)
    stalls.note(None, before, 0.2)  # by the clock; it had no processor meanwhile
    assert stalls.record()["longest_wall"] == 0.2
    assert 30.5e-6 <= stalls.record()["longest"] < 0.1


def test_no_percentile_is_above_the_longest() -> None:
    """Durations are counted in buckets, and the middle of one may be above all that is in it."""
    for number in range(10):
        stalls = Stalls(is_virtual=False)
        stalls.cpu_then = thread_time() - 1
        stalls.note(None, perf_counter(), 0.001 * 1.003**number)
        record = stalls.record()
        assert 0.98 * record["longest"] < record["percentiles"]["p50"] <= record["longest"]


def test_collections_are_told_apart(control: Control, client: Client) -> None:
    burnt(client, COLLECT)
    costs = costs_of(recorded(control, client))
    assert costs.whole["gc_pauses"] >= 5
    assert costs.whole["gc_pause"] > 0
    assert 0 < costs.whole["gc_share"] < 1
    together = 5 * costs.whole["gc_pause"]
    assert longest(costs).get(FINISHED, 0.0) < max(0.02, together / 2)


async def collect_often(stalls: Stalls) -> None:
    """Let callbacks do nothing but collect, for less than a long one takes."""

    def collect() -> None:
        stalls.collect("start", {})
        burn(LONG_S / 2)
        stalls.collect("stop", {})

    stalls.begin()
    for _ in range(50):
        asyncio.get_running_loop().call_soon(collect)
    await asyncio.sleep(0)
    stalls.end()


def test_collections_in_short_callbacks_are_told_apart_too() -> None:
    stalls = Stalls(is_virtual=False)
    asyncio.run(collect_often(stalls))
    record = stalls.record()
    assert record["pauses"] >= 50
    assert record["cpu"] < record["paused"] / 2


def walk_all(control: Control) -> None:
    """Let the agent do something that takes long: it walks through all modules."""
    start = time.monotonic()
    control.call(names.find_functions, {f"*:*nothing-{n}": f".*nothing-{n}" for n in range(40)}, 1)
    assert time.monotonic() - start > BURNT_S / 2


def test_work_of_the_test_counts_and_that_of_the_agent_does_not(
    control: Control, client: Client
) -> None:
    burning = recorded(control, client, lambda _: client.run_on_scheduler(burn, BURNT_S))
    assert costs_of(burning).whole["stall"] >= BURNT_S
    walking = recorded(control, client, lambda _: walk_all(control))
    assert costs_of(walking).whole["stall"] < BURNT_S / 2


LIMITS = {
    "stall(p99) <= 1s": Verdict.PASS,
    "stall(max) <= 1s": Verdict.PASS,
    "stall <= 1us": Verdict.FAIL,
    "stall(p99.9) <= 1us": Verdict.FAIL,
    "stall(distributed.scheduler:Scheduler.*) <= 1us": Verdict.FAIL,
    "gc_share <= 100%": Verdict.PASS,
}


def test_limits_percentiles_and_the_name_of_the_longest(control: Control, client: Client) -> None:
    limits = [parse_limit(limit) for limit in LIMITS]
    assessment = assess(recorded(control, client), limits, None)
    assert assessment.errors == ()
    (backend,) = assessment.backends
    assert [result.verdict for result in backend.limits] == [*LIMITS.values()]
    assert [parse_limit(result.limit) for result in backend.limits] == limits
    broken = backend.limits[2]
    assert ":" in broken.findings[0].subject
    assert f"stall of {broken.findings[0].subject} is" in describe(broken)
    assert " of CPU (at least " in describe(broken)
    assert backend.costs
    names = ["stall_p50", "stall_p90", "stall_p99", "stall_p999", "stall"]
    values = [backend.costs.whole[name] for name in names]
    assert values == sorted(values)
    assert 0 < values[0] < 1e-3
