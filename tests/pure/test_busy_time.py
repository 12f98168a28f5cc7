"""Bounds of costs where samples by the clock show threads that wait for a processor."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.judge.shares import BusyTime, wall_of
from pytest_schedprof.model.limit import Estimate

TIMES = st.floats(0, 1e6, allow_subnormal=False)


def exactly(share: float) -> Estimate:
    return Estimate(share, share, share, 1000, 1.0)


@given(cpu=TIMES, waited=TIMES, other_cpu=TIMES, other_waited=TIMES)
def test_the_cpu_time_is_within_the_bounds_wherever_threads_waited(
    cpu: float, waited: float, other_cpu: float, other_waited: float
) -> None:
    wall = cpu + waited + other_cpu + other_waited
    whole = BusyTime(cpu + other_cpu, wall)
    low, high = whole.bounds(exactly((cpu + waited) / wall if wall else 0.0))
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
    whole = BusyTime(700.0, wall_of(280, 0.005, 1000))
    assert (whole.wall, whole.waited, whole.waited_part) == pytest.approx((1400, 700, 0.5))
    assert whole.bounds(exactly(0.35)) == pytest.approx((0, 490))
    assert whole.bounds(exactly(0.6)) == pytest.approx((140, 700))


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
