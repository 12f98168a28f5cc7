"""Tests of interim checks: the order of sides, when data is checked, and the error rate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.judge.compare import InterimChecks
from pytest_schedprof.judge.estimate import ALPHA


def test_sides_take_turns_in_coming_first() -> None:
    order = [side for pair in (1, 2, 3) for side in InterimChecks.order("AB", pair)]
    assert "".join(order) == "ABBAAB"


def test_looks_are_twice_as_far_apart_each_time() -> None:
    checks = InterimChecks(4, 60.0)
    assert [pairs for pairs in range(1, 70) if checks.is_due(pairs)] == [4, 8, 16, 32, 64]


@given(st.integers(1, 8), st.floats(1, 1000), st.floats(0.01, 100))
def test_all_looks_together_may_be_wrong_as_often_as_one(
    first: int, budget_s: float, pair_s: float
) -> None:
    checks = InterimChecks(first, budget_s)
    pairs, spent = 0, 0.0
    while True:
        pairs += 1
        alpha = checks.alpha(pairs, pairs * pair_s)
        spent += alpha if checks.is_due(pairs) else 0.0
        if not checks.has_time_for_more(pairs, pairs * pair_s) or pairs == 200:
            break
    if not checks.is_due(pairs):
        spent += alpha  # the last check is made when the budget ends
    assert spent <= ALPHA * 1.0001


def test_a_budget_that_one_pair_exceeds_ends_after_it() -> None:
    assert not InterimChecks(4, 10.0).has_time_for_more(1, 11.0)
    assert InterimChecks(4, 10.0).has_time_for_more(1, 4.9)
