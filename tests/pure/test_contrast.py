"""Tests of what is significant: of many figures compared, and of interim checks of one."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.judge.compare import InterimChecks
from pytest_schedprof.judge.contrast import ALPHA, Contrast, largest_chance

CHANCES = st.lists(st.floats(0, 1), max_size=30)


def small_enough(chances: list[float], alpha: float) -> list[bool]:
    bar = largest_chance(chances, alpha) if chances else alpha
    return [chance <= bar for chance in chances]


def test_as_in_the_paper() -> None:
    """Benjamini and Hochberg 1995, section 3.2: four of fifteen hypotheses are rejected."""
    chances = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459]
    chances += [0.324, 0.4262, 0.5719, 0.6528, 0.759, 1.0]
    assert small_enough(chances, 0.05) == [True] * 4 + [False] * 11


@given(CHANCES, st.floats(0.001, 0.2))
def test_at_least_what_is_small_enough_for_all_and_never_what_is_not_for_one(
    chances: list[float], alpha: float
) -> None:
    accepted = small_enough(chances, alpha)
    for chance, is_accepted in zip(chances, accepted, strict=True):
        assert is_accepted or chance > alpha / len(chances)
        assert not is_accepted or chance <= alpha


@given(CHANCES, st.randoms())
def test_the_order_does_not_matter(chances: list[float], chance: random.Random) -> None:
    shuffled = chances.copy()
    chance.shuffle(shuffled)
    accepted = dict(zip(chances, small_enough(chances, 0.05), strict=True))
    assert dict(zip(shuffled, small_enough(shuffled, 0.05), strict=True)) == accepted


@given(st.floats(0.1, 10), st.floats(-50, 50), st.integers(1, 30), st.floats(1e-6, 0.2))
def test_a_bound_is_beyond_0_just_if_its_change_is_significant(
    error: float, difference: float, freedom: int, chance: float
) -> None:
    contrast = Contrast(100.0, 100.0 + difference, error, freedom)
    for p_value, least in (
        (contrast.chance_of_rise, contrast.least_rise(chance)),
        (contrast.chance_of_fall, contrast.least_fall(chance)),
    ):
        assert abs(least) < 1e-6 or (p_value < chance) == (least > 0)


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
