"""Tests of results that do not fit into a hollow worker's memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.virtual.executor import Placeholder, SpilledData, data_of, seconds_to_read

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
