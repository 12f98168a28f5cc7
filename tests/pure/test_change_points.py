"""Tests of change points: steps and trends are found where they exist, and nowhere else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate, pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_schedprof.judge.change_points import course
from pytest_schedprof.model.run import Course, Step

PROPERTY = settings(max_examples=25)
EXACT = 0.005
"""The smallest relative change of exact figures that is reported."""

SERIES = st.lists(st.integers(-1000, 1000).map(float), min_size=1, max_size=60)


def noisy(levels: Sequence[float], cv: float, seed: int) -> list[float]:
    generator = random.Random(seed)
    return [level * (1 + generator.gauss(0, cv)) for level in levels]


def places(result: Course) -> list[int]:
    return [step.at for step in result.steps]


@pytest.mark.parametrize("values", [[], [1.0], [3.0, 9.0], [1.0, 1.0, 1.0, 2.0, 2.0]])
def test_a_handful_of_points_says_nothing(values: list[float]) -> None:
    assert course(values) == Course()


@PROPERTY
@given(value=st.floats(-1e12, 1e12), length=st.integers(0, 80))
def test_a_constant_series_never_changes(value: float, length: int) -> None:
    assert course([value] * length) == Course()


@PROPERTY
@given(
    lengths=st.lists(st.integers(6, 30), min_size=2, max_size=4),
    factors=st.lists(st.sampled_from([0.9, 0.95, 0.99, 1.01, 1.05, 2.0]), min_size=4, max_size=4),
)
def test_every_planted_step_of_an_exact_series_is_found(
    lengths: list[int], factors: list[float]
) -> None:
    levels = [23456.7 * factor for factor in accumulate(factors, float.__mul__)][: len(lengths)]
    values = [level for level, n in zip(levels, lengths, strict=True) for _ in range(n)]
    result = course(values, relative=EXACT)
    assert places(result) == list(accumulate(lengths))[:-1]
    assert [step.before for step in result.steps] == pytest.approx(levels[:-1])
    assert [step.after for step in result.steps] == pytest.approx(levels[1:])
    assert result.trends == ()


@PROPERTY
@given(values=SERIES, shift=st.integers(-(2**20), 2**20), power=st.integers(-20, 20))
def test_shifted_and_scaled_series_change_at_the_same_points(
    values: list[float], shift: int, power: int
) -> None:
    steps = places(course(values))
    assert places(course([value + shift for value in values])) == steps
    assert places(course([value * 2.0**power for value in values])) == steps


@PROPERTY
@given(values=SERIES)
def test_stretches_between_steps_last_and_changes_are_as_large_as_asked(
    values: list[float],
) -> None:
    result = course(values, absolute=100.0)
    borders = [0, *places(result), len(values)]
    assert all(b - a >= 3 for a, b in pairwise(borders) if result.steps)
    assert all(abs(step.after - step.before) >= 100 for step in result.steps)


@PROPERTY
@given(seed=st.integers(0, 10**6), at=st.integers(15, 45), up=st.booleans())
def test_a_step_far_beyond_the_noise_is_found(seed: int, at: int, up: bool) -> None:
    values = noisy([1.0 if (number < at) == up else 2.0 for number in range(60)], 0.08, seed)
    (step,) = course(values, relative=0.05).steps
    assert abs(step.at - at) <= 1
    assert (step.after > step.before) == up
    assert step.chance < 1e-9


@PROPERTY
@given(values=SERIES, at=st.integers(0, 59), by=st.integers(1, 2), height=st.integers(1, 10**6))
def test_what_one_or_two_points_show_alone_is_no_step(
    values: list[float], at: int, by: int, height: int
) -> None:
    assume(at + by <= 60)
    level = [5000.0] * 60
    level[at : at + by] = [5000.0 + height] * by
    assert course(level) == Course()


def test_a_change_is_found_at_the_third_point_after_it() -> None:
    levels = [1000.0] * 20 + [1010.0] * 2
    assert course(levels, relative=EXACT) == Course()
    assert places(course([*levels, 1010.0], relative=EXACT)) == [20]


def test_changes_that_are_too_small_are_not_told() -> None:
    levels = [1000.0] * 20 + [1004.0] * 20
    assert course(levels, relative=EXACT) == Course()
    assert course(levels, absolute=5) == Course()
    assert course(levels) == Course((Step(20, 1000.0, 1004.0, 0.0),))


@pytest.mark.parametrize("total", [1.0, -0.5])
@pytest.mark.parametrize("seed", range(2))
def test_a_slow_change_is_a_trend_and_not_a_staircase(total: float, seed: int) -> None:
    values = noisy([400 * (1 + total * number / 120) for number in range(120)], 0.08, seed)
    result = course(values, relative=0.05)
    assert result.steps == ()
    (trend,) = result.trends
    assert (trend.first, trend.last) == (0, 119)
    assert trend.before == pytest.approx(400, rel=0.1)
    assert trend.after == pytest.approx(400 * (1 + total), rel=0.1)


def test_an_exact_slow_change_is_a_trend_too() -> None:
    result = course([1000.0 + number for number in range(60)], relative=EXACT)
    assert (result.steps, len(result.trends)) == ((), 1)


def test_a_step_in_a_trend_is_told_beside_it() -> None:
    levels = [400 * (1 + 0.005 * number) * (1.6 if number >= 60 else 1) for number in range(120)]
    result = course(noisy(levels, 0.05, 1), relative=0.05)
    assert places(result) == [60]
    assert len(result.trends) == 2


def test_noise_alone_is_rarely_a_step() -> None:
    series = [noisy([400.0] * 100, 0.1, seed) for seed in range(50)]
    assert sum(len(course(values, relative=0.05).steps) for values in series) <= 1


def test_of_many_series_each_must_show_more() -> None:
    values = noisy([400.0] * 20 + [480.0] * 20, 0.1, 3)
    assert places(course(values, relative=0.05)) == [20]
    assert course(values, relative=0.05, siblings=10**6).steps == ()
    exact = [400.0] * 20 + [404.0] * 20
    assert places(course(exact, relative=EXACT, siblings=10**6)) == [20]


def test_noise_that_lasts_is_not_taken_for_independent() -> None:
    def wandering(seed: int) -> list[float]:
        errors = noisy([1.0] * 100, 0.1, seed)
        return [
            400 * v for v in accumulate(errors, lambda a, b: 1 + 0.4 * (a - 1) + 0.92 * (b - 1))
        ]

    alarms = sum(len(course(wandering(seed), relative=0.05).steps) for seed in range(20))
    assert alarms <= 4
