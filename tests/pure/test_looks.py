"""In which order sides take turns, when their data is looked at, and what a look may get wrong."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.comparison.looks import Looks
from pytest_schedprof.comparison.policy import DEFAULT_POLICY


def test_sides_take_turns_in_coming_first() -> None:
    order = [side for pair in (1, 2, 3) for side in Looks.order("AB", pair)]
    assert "".join(order) == "ABBAAB"


def test_looks_are_twice_as_far_apart_each_time() -> None:
    looks = Looks(4, 60.0)
    assert [pairs for pairs in range(1, 70) if looks.is_look(pairs)] == [4, 8, 16, 32, 64]


@given(st.integers(1, 8), st.floats(1, 1000), st.floats(0.01, 100))
def test_all_looks_together_may_be_wrong_as_often_as_one(
    first: int, budget_s: float, pair_s: float
) -> None:
    looks = Looks(first, budget_s)
    pairs, spent = 0, 0.0
    while True:
        pairs += 1
        policy = looks.policy(DEFAULT_POLICY, pairs, pairs * pair_s)
        spent += policy.alpha if looks.is_look(pairs) else 0.0
        if not looks.has_time_for_more(pairs, pairs * pair_s) or pairs == 200:
            break
    if not looks.is_look(pairs):
        spent += policy.alpha  # the last one is when the budget ends
    assert spent <= DEFAULT_POLICY.alpha * 1.0001


def test_a_budget_that_one_pair_exceeds_ends_after_it() -> None:
    assert not Looks(4, 10.0).has_time_for_more(1, 11.0)
    assert Looks(4, 10.0).has_time_for_more(1, 4.9)
