"""Tests of what a scheduler does for each worker: found by counts, timed, and forecast."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import median

import pytest
from capacities import SIZES, capacity, measured, point
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.analysis.carrying import cost_law
from pytest_schedprof.analysis.sweeps import cost_of, growing, slower, sweeps_of, time_at
from pytest_schedprof.model.capacity import Look, Sweeps
from pytest_schedprof.presentation.capacity import sentences

CHOOSE, TRANSITION = "distributed.scheduler:choose", "distributed.scheduler:transition"

FITS, MISSES = 1e-8, 6e-8
"""Seconds of a bytecode with few workers, and with as many as no cache holds."""

LOOKS = {100: [FITS] * 2, 1000: [FITS] * 2, 2000: [2 * FITS] * 2, 10_000: [MISSES, 1.1 * MISSES]}


def counted(workers: int) -> tuple[int, dict[str, float]]:
    """What counts tell of a scheduler that looks at half of the workers for each task."""
    return workers, {CHOOSE: 4.5 * (workers + 1), TRANSITION: 919.0, "other": 5000 + 6e4 / workers}


def sweeps() -> Sweeps:
    return sweeps_of([counted(each) for each in (100, 200, 500)], LOOKS)


def test_functions_that_do_something_for_each_worker_are_found() -> None:
    found = sweeps()
    assert found.functions == (CHOOSE,)
    assert found.bytecodes == pytest.approx(4.5)


def test_growth_that_is_not_in_proportion_with_the_workers_is_chance() -> None:
    stolen = [{"all": 6000.0, "steal": each} for each in (10.0, 90.0, 100.0)]
    assert growing([*zip((100, 200, 500), stolen, strict=True)]) == {}


def test_growth_of_what_is_next_to_nothing_is_chance() -> None:
    few = {"all": 6000.0, "rare": 1.0}
    assert growing([(100, few), (500, {"all": 6000.0, "rare": 5.0})]) == {}


@given(st.floats(1, 1e6))
def test_the_time_of_a_bytecode_lies_between_those_that_were_measured(size: float) -> None:
    looks = sweeps().looks
    found = time_at(looks, size)
    assert FITS * 0.999 <= found.low <= found.value <= found.high <= 1.1 * MISSES * 1.001


def test_the_time_of_a_bytecode_is_the_one_that_was_measured() -> None:
    looks = [Look(100, (1e-8, 3e-8)), Look(10_000, (5e-8,))]
    assert [time_at(looks, size).value for size in (1, 100, 1000, 10_000, 10**6)] == pytest.approx(
        [1e-8, 1e-8, 3e-8, 5e-8, 5e-8]
    )


def test_a_forecast_sees_the_caches_that_small_clusters_do_not_miss() -> None:
    """By the small sizes alone, a task costs nearly the same with any number of workers."""
    rng, known = random.Random(1), cost_of(sweeps())
    truth = {size: 4.5e-4 + known(size).value for size in (*SIZES, 10_000)}
    points = [
        point(size, truth[size] * rng.gauss(1, 0.05)) for size in (*SIZES, *SIZES) if size <= 2000
    ]
    found = cost_law(points, sweeps()).forecast(10_000)
    assert found.value == pytest.approx(truth[10_000], rel=0.15)
    assert found.low <= truth[10_000] <= found.high
    assert found.high < 1.5 * truth[10_000]
    assert cost_law(points, None).forecast(10_000).value < 0.8 * truth[10_000]


def test_bounds_allow_that_the_rest_misses_caches_as_sweeps_do() -> None:
    """Without load, `tree_reduction` cost 298 us with 2,000 workers, and 372 with 10,000."""
    points = [point(size, 3e-4) for size in SIZES if size <= 2000]
    nothing_for_each = replace(sweeps(), bytecodes=0.0, functions=())
    found = cost_law(points, nothing_for_each)
    assert found.forecast(10_000).value == pytest.approx(3e-4)
    assert slower(nothing_for_each.looks, 10_000, 2000) == pytest.approx(1.05 * MISSES / (2 * FITS))
    assert found.forecast(10_000).high > 3e-4 * 1.05 * MISSES / (2 * FITS)
    assert found.forecast(2000).high < 1.1 * 3e-4


@given(st.floats(1, 1e6), st.floats(1, 1e6))
def test_memory_is_never_faster_than_where_it_was_measured(size: float, than: float) -> None:
    assert 1 <= slower(sweeps().looks, size, than) <= 1.1 * MISSES / FITS
    assert slower((), size, than) == 1


def test_what_is_done_for_each_worker_is_told() -> None:
    (side,) = capacity(replace(measured(), sweeps=sweeps())).sides
    assert side.law.endswith("and what it does for each worker")
    (told,) = (each for each in sentences(replace(capacity(measured()), sides=(side,)))
               if "for each worker, " in each)  # fmt: skip
    assert f"4.5 bytecodes in {CHOOSE}: one takes 10 ns with 100 workers and 60 ns with" in told


def test_without_such_functions_a_forecast_has_no_part_of_them() -> None:
    found = sweeps_of([(size, {TRANSITION: 919.0}) for size in (100, 500)], LOOKS)
    assert (found.bytecodes, found.functions) == (0, ())
    assert cost_of(found)(10_000).value == 0
    points = [point(size, 4e-4) for size in SIZES]
    assert cost_law(points, found).forecast(10_000).value == pytest.approx(4e-4)
    assert median(found.looks[0].seconds) == FITS
