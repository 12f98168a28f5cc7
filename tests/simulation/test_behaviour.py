"""Tests of hollow workers' options, of draws from a seed, and of results that do not fit."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.clusters.options import check_cluster_options
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.virtual.behaviour import read_behaviour, read_distribution
from pytest_schedprof.virtual.executor import Placeholder, SpilledData, data_of, seconds_to_read

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
        ("simulated", {"duraton": "1"}, "no option 'duraton' .did you mean 'duration'"),
        ("simulated", {"duration": "uniform(5s, 1s)"}, "duration must be a time .*, got 'uniform"),
        ("simulated", {"duration": "-1"}, "duration must be a time"),
        ("simulated", {"nbytes": "many"}, "nbytes must be a size such as 1MB"),
        ("simulated", {"failures": "2"}, "failures must be a part of all tasks"),
        ("simulated", {"speed": "0"}, "speed must be a positive number"),
        ("simulated", {"workload": "/no/such/file"}, "cannot be read: No such file"),
        ("simulated", {"workload": __file__}, "is no recorded workload"),
        ("local", {"duration": "1"}, "cluster 'local' has no option 'duration'"),
        ("local", {"tls": "perhaps"}, "tls must be true or false, got 'perhaps'"),
        ("tcp://a:1", {"tls": "true"}, "has no option 'tls'"),
        (
            "local",
            {"config.distributed.scheduler.bandwidth.x.y": "1"},
            "no configuration key .*: 'distributed.scheduler.bandwidth' is no section",
        ),
    ],
)
def test_wrong_options_are_told(kind: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        check_cluster_options(kind, options)


ROOM, RATE = 100, 10.0

steps = st.lists(
    st.tuples(st.sampled_from(["put", "read", "delete"]), st.integers(0, 9), st.integers(0, 150))
)


@given(steps)
def test_memory_is_never_overfull_and_nothing_is_lost(moves: list[tuple[str, int, int]]) -> None:
    data, sizes = SpilledData(ROOM, RATE), dict[int, int]()
    for what, key, size in moves:
        if what == "put":
            data[key], sizes[key] = Placeholder(key, size), size
        elif key in sizes and what == "delete":
            del data[key]
            del sizes[key]
        else:
            assert seconds_to_read(data, [key]) >= 0
        assert data.keys() == sizes.keys()
        in_memory = sum(sizes.values()) - data.on_disk
        # What was used last stays, however large it is.
        assert in_memory <= max(ROOM, max(sizes.values(), default=0))


def test_writes_and_reads_take_their_time() -> None:
    data = SpilledData(ROOM, RATE)
    for key in "ab":
        data[key] = Placeholder(key, 60)
    assert data.on_disk == 60
    assert data.seconds_owed() == pytest.approx(6)  # to write `a`
    assert seconds_to_read(data, ["a"]) == pytest.approx(12)  # to read it and to write `b`
    assert seconds_to_read(data, ["a"]) == 0
    assert data.pop("b").key == "b"
    assert data.on_disk == 0


def test_each_write_is_told() -> None:
    written: list[int] = []
    data = data_of(ROOM / 0.6, float("inf"), written.append)
    for key in "ab":
        data[key] = Placeholder(key, 60)
    assert seconds_to_read(data, ["a"]) == 0  # of a disk that takes no time
    assert written == [60, 60]  # `a`, and `b` when `a` was read


def test_without_a_disk_that_takes_time_nothing_is_spilled() -> None:
    assert type(data_of(1000, float("inf"))) is dict
    assert isinstance(data_of(1000, 10.0), SpilledData)
