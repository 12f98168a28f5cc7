"""Tests of bounds of shares, of Student's t, and of what is significant among many figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_schedprof.judge.compare import InterimChecks
from pytest_schedprof.judge.estimate import (
    ALPHA,
    MANY,
    Contrast,
    Figure,
    bound_at,
    critical,
    degrees_of_freedom,
    estimate,
    largest_chance,
    unpaired,
    upper_tail,
)
from pytest_schedprof.model.limit import Estimate


def binomial(random: Random, trials: int, chance: float) -> int:
    return sum(random.random() < chance for _ in range(trials))


def width(estimate: Estimate) -> float:
    return estimate.high - estimate.low


UNITS = st.lists(
    st.integers(0, 2000).flatmap(lambda size: st.tuples(st.integers(0, size), st.just(size))),
    max_size=25,
)


@settings(max_examples=60)
@given(UNITS, st.booleans(), st.floats(0, 0.5))
def test_bounds_hold_the_value_and_are_shares(
    units: list[tuple[int, int]], rounds: bool, drift: float
) -> None:
    counts, totals = [unit[0] for unit in units], [unit[1] for unit in units]
    result = estimate(counts, totals, rounds=rounds, drift=drift)
    assert 0 <= result.low <= result.value <= result.high <= 1
    assert result.low < result.high
    assert result.samples == sum(totals)
    assert result.dispersion >= 1
    if result.samples:
        assert result.value == pytest.approx(sum(counts) / sum(totals), abs=1e-6)
    else:
        assert (result.value, result.low, result.high) == (0.0, 0.0, 1.0)
    rest = [total - count for count, total in units]
    mirrored = estimate(rest, totals, rounds=rounds, drift=drift)
    if result.samples:
        assert mirrored.low == pytest.approx(1 - result.high, abs=2e-6)
        assert mirrored.high == pytest.approx(1 - result.low, abs=2e-6)


@pytest.mark.parametrize("rounds", [True, False])
def test_more_samples_and_more_units_narrow_the_bounds(rounds: bool) -> None:
    none_seen = estimate([0] * 10, [100] * 10, rounds=rounds, drift=0.0)
    assert (none_seen.value, none_seen.low) == (0.0, 0.0)
    assert 0.001 < none_seen.high < 0.01
    few = estimate([20, 18, 22, 20] * 3, [100] * 12, rounds=rounds, drift=0.0)
    many = estimate([320, 312, 328, 320] * 3, [1600] * 12, rounds=rounds, drift=0.0)
    assert width(many) == pytest.approx(width(few) / 4, rel=0.1)
    alone = estimate([200], [1000], rounds=rounds, drift=0.0)
    spread = estimate([10] * 20, [50] * 20, rounds=rounds, drift=0.0)
    assert width(alone) > 2 * width(spread)


@pytest.mark.parametrize("rounds", [True, False])
def test_over_dispersed_units_are_recognised_and_widen_the_bounds(rounds: bool) -> None:
    random = Random(7)
    calm = [binomial(random, 400, 0.3) for _ in range(20)]
    # The standard deviation of the share in 400 samples is 0.023; add four times as much.
    wild = [binomial(random, 400, random.gauss(0.3, 0.092)) for _ in range(20)]
    honest = estimate(calm, [400] * 20, rounds=rounds, drift=0.0)
    result = estimate(wild, [400] * 20, rounds=rounds, drift=0.0)
    assert honest.dispersion < 1.5
    assert 2.5 < result.dispersion < 6
    assert width(result) > 2 * width(honest)


def test_a_change_of_phase_widens_neighbours_differences_far_less_than_plain_deviations() -> None:
    random = Random(11)
    phases = [binomial(random, 100, 0.1) for _ in range(10)]
    phases += [binomial(random, 100, 0.5) for _ in range(10)]
    blocks = estimate(phases, [100] * 20, rounds=False, drift=0.0)
    plain = estimate(phases, [100] * 20, rounds=True, drift=0.0)
    assert plain.dispersion > 3
    assert blocks.dispersion < plain.dispersion / 2
    assert width(blocks) < width(plain) / 2


def test_no_number_of_samples_from_one_window_outweighs_the_drift_between_windows() -> None:
    endless = estimate([10**6] * 20, [4 * 10**6] * 20, rounds=False, drift=0.05)
    share, deviation = 0.25, 0.05 * (0.25 * 0.75) ** 0.5
    quantile = bound_at(degrees_of_freedom(20, rounds=False))
    assert endless.low == pytest.approx(share - quantile * deviation, rel=0.02)
    assert endless.high == pytest.approx(share + quantile * deviation, rel=0.02)


def test_rounds_show_their_drift_themselves() -> None:
    counts, totals = [20, 22, 18, 21], [100] * 4
    assert estimate(counts, totals, rounds=True, drift=0.0) == estimate(
        counts, totals, rounds=True, drift=0.3
    )


def coverage(
    simulate: Callable[[Random], Sequence[int]],
    totals: Sequence[int],
    share: float,
    *,
    rounds: bool,
    times: int = 800,
) -> tuple[float, float]:
    """Return how often the true share is at least the lower bound, and at most the upper bound."""
    random = Random(314159)
    estimates = [estimate(simulate(random), totals, rounds=rounds, drift=0.0) for _ in range(times)]
    below = sum(share >= result.low for result in estimates) / times
    above = sum(share <= outcome.high for outcome in estimates) / times
    return below, above


@pytest.mark.parametrize(
    ("rounds", "units", "size", "share"),
    [
        (False, 20, 50, 0.02),
        (False, 3, 20, 0.5),
        (True, 3, 200, 0.2),
    ],
)
def test_each_bound_of_independent_samples_holds_as_often_as_it_says(
    rounds: bool, units: int, size: int, share: float
) -> None:
    def simulate(random: Random) -> list[int]:
        return [binomial(random, size, share) for _ in range(units)]

    # The standard error of a coverage of 95 % in 800 simulations is 0.8 points; allow three.
    assert min(coverage(simulate, [size] * units, share, rounds=rounds)) >= 0.95 - 0.024


@pytest.mark.parametrize("totals", [[300] * 3, [1000, 100, 100]], ids=str)
def test_each_bound_of_over_dispersed_rounds_holds_as_often_as_it_says(totals: list[int]) -> None:
    def simulate(random: Random) -> list[int]:
        return [binomial(random, total, random.gauss(0.3, 0.07)) for total in totals]

    assert min(coverage(simulate, totals, 0.3, rounds=True)) >= 0.95 - 0.03


@pytest.mark.parametrize(
    ("t", "df", "tail"),
    [  # critical values, as printed in any table of Student's t
        (1.0, 1, 0.25),
        (9.925, 2, 0.005),
        (12.924, 3, 0.0005),
        (4.032, 5, 0.005),
        (2.764, 10, 0.01),
        (3.646, 30, 0.0005),
        (1.980, 120, 0.025),
        (1.962, 1000, 0.025),
        *((6.314, 1, 0.05), (2.920, 2, 0.05), (2.132, 4, 0.05), (1.729, 19, 0.05)),
    ],
)
def test_tables(t: float, df: int, tail: float) -> None:
    assert upper_tail(t, df) == pytest.approx(tail, rel=2e-3)
    assert tail != 0.05 or bound_at(df) == pytest.approx(t, abs=1e-3)


@given(st.floats(-1e6, 1e6), st.integers(1, 400))
def test_is_symmetric_and_a_probability(t: float, df: int) -> None:
    assert 0 <= upper_tail(t, df) <= 1
    assert upper_tail(t, df) + upper_tail(-t, df) == pytest.approx(1)


@given(st.floats(1e-5, 0.49), st.integers(1, 1000))
def test_a_critical_value_is_exceeded_so_often(chance: float, df: int) -> None:
    assert upper_tail(critical(chance, df), df) == pytest.approx(chance, rel=1e-6)


def test_the_ends() -> None:
    assert upper_tail(0.0, 7) == 0.5
    assert upper_tail(inf, 4) == 0.0
    assert upper_tail(inf, 5) == pytest.approx(0.0, abs=1e-15)
    assert upper_tail(-inf, 5) == pytest.approx(1.0)


def test_no_degree_of_freedom() -> None:
    with pytest.raises(ValueError, match="not 0"):
        upper_tail(1.0, 0)


@pytest.mark.parametrize("freedom", [2, 3, 7, 11, 19, MANY])
def test_a_figure_without_an_error_takes_no_freedom_from_the_other(freedom: int) -> None:
    """However the quotient is rounded, which is below 7 for every twelfth figure."""
    for number in range(1, 200):
        figure = Figure(2.0, number / 7, freedom)
        assert unpaired(Figure(1.0), figure).freedom == freedom
        assert unpaired(figure, Figure(1.0)).freedom == freedom
        assert unpaired(figure, figure).freedom == 2 * freedom


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
def test_the_order_does_not_matter(chances: list[float], chance: Random) -> None:
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
