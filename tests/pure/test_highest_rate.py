"""Tests of the search for the highest rate that is carried, and of how it is told."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from capacities import capacity, measured
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.model.capacity import Bounds, ByLoad, Load
from pytest_schedprof.presentation.capacity import sentences
from pytest_schedprof.searching.rates import NEAR, TRIES, Tried, bracket, broken_by, next_rate

BOUNDS = Bounds(stall=3.0, lag=1.0)


def search(first: float, highest: float, most: int = 40) -> list[Tried]:
    tried: list[Tried] = []
    while (rate := next_rate(first, tried, most)) is not None:
        tried.append(Tried(rate, rate <= highest))
    return tried


@given(st.floats(10, 1e4), st.floats(0.1, 20))
def test_the_highest_rate_is_found(first: float, times: float) -> None:
    highest = first * times
    carried, failed = bracket(search(first, highest))
    assert carried <= highest < failed
    assert failed <= NEAR * carried


def test_a_rate_that_failed_once_is_tried_again() -> None:
    once = [Tried(100.0, True), Tried(200.0, False)]
    assert bracket(once) == (100.0, inf)
    assert next_rate(100.0, once, 40) == 200.0
    again = [*once, Tried(200.0, True)]
    assert bracket(again) == (200.0, inf)
    assert next_rate(100.0, again, 40) == 400.0
    twice = [*once, *[Tried(200.0, False)] * (TRIES - 1)]
    assert bracket(twice) == (100.0, 200.0)


def test_the_search_ends_where_nothing_is_carried_or_everything_is() -> None:
    for highest in (0.0, inf):
        tried = search(100.0, highest)
        assert min(each.rate for each in tried) >= 100 / 64
        assert max(each.rate for each in tried) <= 6400
    assert len(search(100.0, 150.0, most=3)) == 3


@pytest.mark.parametrize(
    ("stall", "lag", "late", "told"),
    [(1, 0.5, 0.01, ""), (4, 2, 0.5, "stall"), (1, 2, 0.5, "lag"), (1, 0.5, 0.5, "late")],
)
def test_a_load_is_carried_if_it_keeps_all_bounds(
    stall: float, lag: float, late: float, told: str
) -> None:
    assert broken_by(stall, lag, late, BOUNDS) == told


def told_of(busy: float, broken: str, rate: float = 2000.0, failed: float | None = 2180.0) -> str:
    last = Load(failed or 2180.0, 2000, 0.9, 0.1, 0.2, busy, broken)
    by_load = ByLoad(100, rate, failed, (last, last))
    return " ".join(sentences(capacity(replace(measured(), by_load=by_load))))


def test_the_rate_by_load_is_told_beside_the_one_that_costs_give() -> None:
    told = told_of(0.97, "late")
    assert "with 100 workers it carried 2,000 tasks a second, 77% of what follows" in told
    assert "with 2,200 graphs ended later and later, while it needed 97% of a core." in told


def test_a_machine_that_is_the_limit_is_named() -> None:
    assert "other processes of this machine were the limit" in told_of(0.4, "late")
    assert "were the limit" not in told_of(0.4, "lag")
    assert "the event loop lagged too much" in told_of(0.4, "lag")


def test_ends_of_the_search_are_told() -> None:
    assert "carried none of the rates from 2,200 tasks a second on" in told_of(1, "late", rate=0)
    assert "nothing that was tried was too much" in told_of(1, "", failed=None)


def test_sizes_that_kept_a_bound_when_measured_are_told() -> None:
    told = " ".join(sentences(capacity(measured())))
    assert "measured: kept with 1,000, passed with 2,000" not in told  # the lag of 2,000 is 1 s
    assert "(1,900 to 2,100); measured: kept with 2,000" in told
    late = tuple(replace(each, lag=2 * each.lag) for each in measured().workers)
    told = " ".join(sentences(capacity(replace(measured(), workers=late))))
    assert "; measured: kept with 1,000, passed with 2,000." in told
    late = tuple(replace(each, lag=2.0) for each in measured().workers)
    told = " ".join(sentences(capacity(replace(measured(), workers=late))))
    assert "; measured: passed with 100 already." in told
