"""Tests of Student's t distribution against tables."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.judge.estimate import bound_at, critical, upper_tail

# fmt: off
SCIPY_T_95 = (
    6.3138, 2.9200, 2.3534, 2.1318, 2.0150, 1.9432, 1.8946, 1.8595, 1.8331, 1.8125,
    1.7959, 1.7823, 1.7709, 1.7613, 1.7531, 1.7459, 1.7396, 1.7341, 1.7291, 1.7247,
    1.7207, 1.7171, 1.7139, 1.7109, 1.7081, 1.7056, 1.7033, 1.7011, 1.6991, 1.6973,
    1.6955, 1.6939, 1.6924, 1.6909, 1.6896, 1.6883, 1.6871, 1.6860, 1.6849, 1.6839,
    1.6829, 1.6820, 1.6811, 1.6802, 1.6794, 1.6787, 1.6779, 1.6772, 1.6766, 1.6759,
    1.6753, 1.6747, 1.6741, 1.6736, 1.6730, 1.6725, 1.6720, 1.6716, 1.6711, 1.6706,
)
# fmt: on
"""Values of `scipy.stats.t.ppf(0.95, df)` for df from 1 to 60."""


@pytest.mark.parametrize(
    ("t", "df", "tail"),
    [  # critical values, as printed in any table of Student's t
        (1.0, 1, 0.25),
        (6.314, 1, 0.05),
        (2.920, 2, 0.05),
        (9.925, 2, 0.005),
        (2.353, 3, 0.05),
        (12.924, 3, 0.0005),
        (2.132, 4, 0.05),
        (2.015, 5, 0.05),
        (4.032, 5, 0.005),
        (2.764, 10, 0.01),
        (1.753, 15, 0.05),
        (3.646, 30, 0.0005),
        (1.980, 120, 0.025),
        (1.962, 1000, 0.025),
    ],
)
def test_tables(t: float, df: int, tail: float) -> None:
    assert upper_tail(t, df) == pytest.approx(tail, rel=2e-3)


@given(st.floats(-1e6, 1e6), st.integers(1, 400))
def test_is_symmetric_and_a_probability(t: float, df: int) -> None:
    assert 0 <= upper_tail(t, df) <= 1
    assert upper_tail(t, df) + upper_tail(-t, df) == pytest.approx(1)


@given(st.floats(0, 50), st.floats(0, 50), st.integers(1, 400))
def test_falls(a: float, b: float, df: int) -> None:
    low, high = sorted((a, b))
    assert upper_tail(high, df) <= upper_tail(low, df) + 1e-14


@given(st.floats(1e-5, 0.49), st.integers(1, 1000))
def test_a_critical_value_is_exceeded_so_often(chance: float, df: int) -> None:
    assert upper_tail(critical(chance, df), df) == pytest.approx(chance, rel=1e-6)


def test_bounds_are_where_scipy_has_them() -> None:
    bounds = [bound_at(df) for df in range(1, 61)]
    assert bounds == pytest.approx(SCIPY_T_95, abs=1e-4)


def test_the_ends() -> None:
    assert upper_tail(0.0, 7) == 0.5
    assert upper_tail(inf, 4) == 0.0
    assert upper_tail(inf, 5) == pytest.approx(0.0, abs=1e-15)
    assert upper_tail(-inf, 5) == pytest.approx(1.0)


def test_no_degree_of_freedom() -> None:
    with pytest.raises(ValueError, match="not 0"):
        upper_tail(1.0, 0)
