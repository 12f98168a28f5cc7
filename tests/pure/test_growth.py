"""Tests of growth: the exponent of a cost against the scale."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.judge.costs import Costs, Unit, exponent
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.judge.verdicts import judge
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.report.tables import describe

SCALES = st.lists(st.integers(1, 10**6), min_size=2, max_size=6, unique=True)


@given(SCALES, st.floats(-1, 3), st.floats(0.01, 1e6))
def test_a_power_is_found_exactly(scales: list[int], power: float, factor: float) -> None:
    points = [(scale, factor * scale**power) for scale in scales]
    fit = exponent(points, 1, 0.0)
    assert fit.value == pytest.approx(power, abs=1e-6)
    assert fit.low == fit.high == fit.value


def test_a_linear_scan_for_each_task_grows_as_a_square() -> None:
    points = [(scale, 500.0 * scale + 4.0 * scale**2) for scale in (100, 1000, 10_000)]
    assert 1.2 < exponent(points, 1, 0.0).value < 2


def test_timed_amounts_have_bounds_that_hold_the_truth() -> None:
    rng, missed = random.Random(0), 0
    for _ in range(500):
        points = [(n, 3.0 * n * rng.gauss(1, 0.1)) for n in (100, 1000, 10_000)]
        fit = exponent(points, 1, 0.1)
        missed += not fit.low <= 1 <= fit.high
    assert missed / 500 < 0.1


@pytest.mark.parametrize("amounts", [(0.0, 0.0, 5e4), (0.0, 10.0, 1e5), (3.0, 0.0, 0.0)])
def test_what_happened_at_some_scales_only_may_grow_without_bounds(
    amounts: tuple[float, ...],
) -> None:
    fit = exponent(list(zip((100, 1000, 10_000), amounts, strict=True)), 1, 0.0)
    assert fit.low < 1 < fit.high
    assert exponent([(10, 0.0), (100, 0.0)], 1, 0.0).value == exponent([], 1, 0.0).value == 0


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=6, unique=True), st.integers(1, 1000))
def test_what_is_linear_is_exactly_so(scales: list[int], factor: int) -> None:
    assert exponent([(n, float(factor * n)) for n in scales], 1, 0.0).high <= 1


def costs(power: float) -> Costs:
    return Costs(
        [
            Unit(scale, {"m:f": {"bytecodes": 7.0 * scale**power}}, {}, scale=scale)
            for scale in (100, 1000)
        ]
    )


def test_limits_on_growth_are_judged() -> None:
    limit = parse_limit("growth(bytecodes, m:f) <= 1.05")
    assert judge(limit, costs(1.0), ["m:f"]).verdict is Verdict.PASS
    broken = judge(limit, costs(1.5), ["m:f"])
    assert broken.verdict is Verdict.FAIL
    assert "grows as scale ** 1.5" in describe(broken)


def test_without_scales_there_is_no_verdict() -> None:
    one = Costs([Unit(10, {"m:f": {"calls": 10.0}}, {})])
    result = judge(parse_limit("growth(calls) <= 1.05"), one, [])
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "scale=[100, 1000]" in result.note
