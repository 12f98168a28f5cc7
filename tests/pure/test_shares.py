"""Tests of shares: samples that count, blocks of a window, and waiting threads."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import recorded
from msgspec.structs import replace

from pytest_schedprof.judge.shares import (
    BusyTime,
    Tally,
    blocks_for,
    shares_of,
    tally_blocks,
    total,
    wall_of,
)
from pytest_schedprof.model.limit import Estimate
from pytest_schedprof.model.profile import SampleProfile, Stack

ROOT = "asyncio.events:Handle._run"
INTAKE = "distributed.scheduler:Scheduler.update_graph"
TRANSITIONS = "distributed.scheduler:SchedulerState._transitions"
TRANSITION = "distributed.scheduler:SchedulerState._transition"
SEND = "distributed.batched:BatchedSend.send"

BUSY: tuple[Stack, ...] = (
    (ROOT,),
    (ROOT, INTAKE),
    (ROOT, TRANSITIONS, TRANSITION),
    (ROOT, TRANSITIONS, TRANSITION, SEND),
    (ROOT, TRANSITIONS, TRANSITION, TRANSITIONS, TRANSITION),
)
NOT_BUSY: tuple[Stack, ...] = (
    (ROOT, "selectors:EpollSelector.select"),
    (ROOT, "pytest_schedprof.agent.pyspy:beacon"),
    (ROOT, "distributed.worker:Worker.execute", SEND),
    (ROOT, "distributed.client:Client._handle_report"),
    ("threading:Thread.run", "mymodule:serve"),
)


def whole(profile: SampleProfile) -> Tally:
    (tally,) = tally_blocks(profile, 1)
    return tally


THREADS = st.lists(st.lists(st.sampled_from([*BUSY, *NOT_BUSY]), max_size=150), max_size=4)


@pytest.mark.parametrize(
    "collecting", ["distributed.gc:GCDiagnosis._gc_callback", "python3.12:gc_collect_main"]
)
def test_what_the_collector_does_is_charged_to_nobody_in_whose_midst_it_began(
    collecting: str,
) -> None:
    tally = whole(recorded([BUSY[2]] * 3 + [(*BUSY[2], collecting, "python3.12:visit")] * 2))
    assert tally.busy == 5
    assert tally.inclusive[TRANSITION] == tally.own[TRANSITION] == 3
    assert tally.inclusive[collecting] == tally.owners["gc"] == 2


def test_a_sample_in_which_a_thread_waits_is_cpu_time_only_of_a_clock_of_cpu_time() -> None:
    seen = recorded([BUSY[2]] * 6 + [NOT_BUSY[0]] * 10 + [NOT_BUSY[1]] * 2)
    assert (whole(seen).waiting, whole(seen).busy_part) == (10, 6 / 8)
    of_cpu = whole(replace(seen, is_of_cpu=True))
    assert (of_cpu.waiting, of_cpu.busy_part) == (0, 6 / 18)


@pytest.mark.parametrize("stack", NOT_BUSY, ids=lambda stack: stack[-1])
def test_idle_and_foreign_samples_are_in_no_denominator(stack: Stack) -> None:
    alone = recorded([BUSY[1]] * 30 + [BUSY[2]] * 10)
    diluted = recorded([BUSY[1]] * 30 + [stack] * 500 + [BUSY[2]] * 10, empty_samples=900)
    tally = whole(diluted)
    assert (tally.busy, tally.idle, tally.empty) == (40, 500, 900)
    assert tally.inclusive == whole(alone).inclusive
    assert shares_of([[diluted]], drift=0.0).of_function(INTAKE).value == pytest.approx(0.75)


@given(THREADS, st.integers(0, 5), st.one_of(st.none(), st.integers(1, 30)))
def test_blocks_partition_all_samples(
    threads: list[list[Stack]], empty: int, count: int | None
) -> None:
    given_profile = recorded(*threads, empty_samples=empty)
    blocks = tally_blocks(given_profile, count)
    samples = [stack for thread in threads for stack in thread]
    busy = [stack for stack in samples if stack in BUSY]
    assert len(blocks) == (count or blocks_for(len(busy)))
    together = total(blocks)
    assert together == whole(given_profile)
    assert together.busy == len(busy)
    assert together.idle == len(samples) - len(busy)
    assert together.empty == empty
    assert together.own == Counter(stack[-1] for stack in busy)
    assert together.inclusive == Counter(name for stack in busy for name in set(stack))


@given(THREADS)
def test_in_every_block_own_samples_and_owners_add_up_to_the_busy_ones(
    threads: list[list[Stack]],
) -> None:
    blocks = tally_blocks(recorded(*threads))
    for block in blocks:
        assert sum(block.own.values()) == block.busy
        assert sum(block.owners.values()) == block.busy
        assert all(0 < count <= block.busy for count in block.inclusive.values())
    lengths = [block.busy for block in blocks]
    assert max(lengths) - min(lengths) <= len(threads)


def test_blocks_follow_the_order_of_the_samples() -> None:
    blocks = tally_blocks(recorded([BUSY[1]] * 50 + [NOT_BUSY[0]] * 999 + [BUSY[2]] * 50), 4)
    assert [block.inclusive[INTAKE] for block in blocks] == [25, 25, 0, 0]
    assert [block.inclusive[TRANSITION] for block in blocks] == [0, 0, 25, 25]


def test_up_to_two_rounds_are_cut_into_blocks_from_three_on_rounds_are_the_units() -> None:
    one = recorded([BUSY[1]] * 100)
    two, three = (shares_of([[one]] * count, drift=0.0) for count in (2, 3))
    assert (two.inference, len(two.units)) == ("blocks", 2 * blocks_for(100))
    assert (three.inference, len(three.units)) == ("rounds", 3)
    assert two.total.busy == 200
    assert three.total.busy == 300


def test_a_round_of_several_stretches_is_one_unit() -> None:
    stretches = [recorded([BUSY[1]] * 30), recorded([BUSY[2]] * 70, empty_samples=1)]
    shares = shares_of([stretches] * 4, drift=0.0)
    assert [unit.busy for unit in shares.units] == [100] * 4
    assert shares.total.empty == 4
    assert shares.of_function(INTAKE).value == pytest.approx(0.3)


def test_rounds_that_brought_no_sample_are_no_evidence_of_how_rounds_scatter() -> None:
    """One round with samples and two without show no more than the first one alone."""
    one = recorded([BUSY[1], BUSY[2]] * 500)
    alone = shares_of([[one]], drift=0.1).of_function(INTAKE)
    padded = shares_of([[one], [recorded()], []], drift=0.1).of_function(INTAKE)
    assert padded.value == alone.value
    assert padded.high - padded.low >= alone.high - alone.low


@given(THREADS)
def test_the_shares_of_all_owners_add_up_to_one(threads: list[list[Stack]]) -> None:
    shares = shares_of([[recorded(*threads)]], drift=0.0)
    owners = shares.owners()
    assert sum(owner.share.value for owner in owners) == pytest.approx(1 if owners else 0, abs=1e-4)
    selves = [shares.of_function_itself(name).value for name in shares.total.own]
    assert sum(selves) == pytest.approx(1 if selves else 0, abs=1e-4)


def test_in_a_shared_process_limits_on_undivided_functions_are_not_judged() -> None:
    """A worker and a client in the same process send messages through the same functions."""
    anybodys = (ROOT, "distributed.batched:BatchedSend._background_send")
    alone = recorded([BUSY[2]] * 60 + [anybodys] * 40)
    shared = shares_of([[replace(alone, is_shared=True)]], drift=0.0)
    assert shared.total.busy == 60
    assert "40 samples of @comm" in shared.doubt("share", "@comm")
    assert shared.doubt("self", "distributed.batched:*")
    assert not shared.doubt("share", "@transitions")
    assert not shared.doubt("share", TRANSITION)
    assert shared.sampled().is_shared
    assert not shares_of([[alone]], drift=0.0).doubt("share", "@comm")


TIMES = st.floats(0, 1e6, allow_subnormal=False)


def exactly(share: float) -> Estimate:
    return Estimate(share, share, share, 1000, 1.0)


@given(cpu=TIMES, waited=TIMES, other_cpu=TIMES, other_waited=TIMES)
def test_the_cpu_time_is_within_the_bounds_wherever_threads_waited(
    cpu: float, waited: float, other_cpu: float, other_waited: float
) -> None:
    wall = cpu + waited + other_cpu + other_waited
    busy = BusyTime(cpu + other_cpu, wall)
    low, high = busy.bounds(exactly((cpu + waited) / wall if wall else 0.0))
    slack = 1e-9 * (wall + 1)
    assert low - slack <= cpu <= high + slack


@given(cpu=TIMES, missed=TIMES, share=st.floats(0, 1))
def test_samples_that_were_missed_widen_no_bounds(cpu: float, missed: float, share: float) -> None:
    of_samples = replace(exactly(share), low=share / 2)
    assert BusyTime(cpu + missed, cpu).bounds(of_samples) == (
        share / 2 * (cpu + missed),
        share * (cpu + missed),
    )
    assert BusyTime(cpu, 0.0).bounds(of_samples) == (share / 2 * cpu, share * cpu)


def test_half_of_the_time_without_a_processor_may_have_been_in_any_function() -> None:
    busy = BusyTime(700.0, wall_of(280, 0.005, 1000))
    assert (busy.wall, busy.waited, busy.waited_part) == pytest.approx((1400, 700, 0.5))
    assert busy.bounds(exactly(0.35)) == pytest.approx((0, 490))
    assert busy.bounds(exactly(0.6)) == pytest.approx((140, 700))


def test_where_no_thread_waited_a_cost_is_as_it_was() -> None:
    cost = Estimate(100.0, 98.0, 102.0, 1000, 0.0)
    share = replace(exactly(0.5), low=0.1, high=0.9)
    assert BusyTime(200.0, 0.0).widened(share, cost) == cost
    assert BusyTime(200.0, 200.0).widened(share, cost) == cost


def test_a_cost_keeps_bounds_that_are_wider_for_another_reason() -> None:
    cost = Estimate(100.0, 50.0, 900.0, 1000, 0.0)
    assert BusyTime(200.0, 250.0).widened(exactly(0.5), cost) == replace(cost, low=50.0, high=900.0)
    narrow = replace(cost, low=99.0, high=101.0)
    widened = BusyTime(200.0, 250.0).widened(exactly(0.5), narrow)
    assert (widened.low, widened.value, widened.high) == pytest.approx((75, 100, 125))
