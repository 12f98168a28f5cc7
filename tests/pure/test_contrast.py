"""Tests of the correction for multiple comparisons: which p-values are significant."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.judge.estimate import Contrast, largest_chance

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
