"""Tests of the options of hollow workers, and that the same seed gives the same draws."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.clusters.options import check_cluster_options
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.virtual.behaviour import read_behaviour, read_distribution

numbers = st.floats(min_value=0, max_value=1e6, allow_nan=False)


@given(numbers)
def test_a_number_is_always_itself(value: float) -> None:
    draw = read_distribution(repr(value), float)
    assert {draw(random.Random(n)) for n in range(3)} == {value}


@given(numbers, numbers, st.integers())
def test_uniform_stays_between(low: float, high: float, seed: int) -> None:
    low, high = sorted((low, high))
    value = read_distribution(f"uniform({low!r}, {high!r})", float)(random.Random(seed))
    assert low <= value <= high * (1 + 1e-12)


@pytest.mark.parametrize(
    ("text", "mean"),
    [("exponential(3)", 3), ("uniform(2, 4)", 3), ("lognormal(3, 0)", 3), ("fixed(3)", 3)],
)
def test_means(text: str, mean: float) -> None:
    draw, rng = read_distribution(text, float), random.Random(0)
    assert sum(draw(rng) for _ in range(20_000)) / 20_000 == pytest.approx(mean, rel=0.05)


@given(st.text())
def test_text_is_a_distribution_or_a_value_error(text: str) -> None:
    try:
        value = read_distribution(text, float)(random.Random(0))
    except ValueError:
        return
    assert value >= 0


def test_prefixes_have_draws_of_their_own_that_a_seed_repeats() -> None:
    options = {"duration": "exponential(10ms)", "failures": "0.5", "seed": "7"}
    one, other = read_behaviour(options), read_behaviour(options)
    draws = [one.seconds("inc-1", "inc") for _ in range(5)]
    other.seconds("add-1", "add")  # draws of another prefix change nothing for the first
    assert [other.seconds("inc-1", "inc") for _ in range(5)] == draws
    assert len(set(draws)) == 5
    assert [one.fails("inc-1", "inc") for _ in range(9)] == [
        other.fails("inc-1", "inc") for _ in range(9)
    ]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("simulated", {"duraton": "1"}, "no option 'duraton'; did you mean 'duration'?"),
        ("simulated", {"duration": "uniform(5s, 1s)"}, "duration must be a time .*, got 'uniform"),
        ("simulated", {"duration": "uniform(1)"}, "duration must be a time .*, got 'uniform"),
        ("simulated", {"duration": "-1"}, "duration must be a time"),
        ("simulated", {"duration": ""}, "duration must be a time"),
        ("simulated", {"nbytes": "1e400"}, "nbytes must be a size"),
        ("simulated", {"nbytes": "many"}, "nbytes must be a size such as 1MB"),
        ("simulated", {"failures": "2"}, "failures must be a part of all tasks"),
        ("simulated", {"speed": "0"}, "speed must be a positive number"),
        ("local", {"duration": "1"}, "cluster 'local' has no option 'duration'"),
        ("local", {"tls": "perhaps"}, "tls must be true or false, got 'perhaps'"),
        ("tcp://a:1", {"tls": "true"}, "has no option 'tls'"),
    ],
)
def test_wrong_options_are_told(kind: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        check_cluster_options(kind, options)
