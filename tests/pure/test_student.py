"""Student's t against the tables."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.analysis.estimate import student_quantile
from pytest_schedprof.analysis.student import upper_tail


@pytest.mark.parametrize(
    ("t", "df", "tail"),
    [  # critical values as any table of Student's t prints them
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


@given(st.floats(0.6, 0.999), st.integers(5, 300))
def test_turns_the_quantile_back(level: float, df: int) -> None:
    assert upper_tail(student_quantile(level, df), df) == pytest.approx(1 - level, rel=0.05)


def test_the_ends() -> None:
    assert upper_tail(0.0, 7) == 0.5
    assert upper_tail(inf, 4) == 0.0
    assert upper_tail(inf, 5) == pytest.approx(0.0, abs=1e-15)
    assert upper_tail(-inf, 5) == pytest.approx(1.0)


def test_no_degree_of_freedom() -> None:
    with pytest.raises(ValueError, match="not 0"):
        upper_tail(1.0, 0)
