"""Tests of comparing counts of runs that are the same each time, as in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measured import ENVIRONMENT, SCHEDULER, counted_in, measured

from pytest_schedprof.judge.compare import compare
from pytest_schedprof.model.comparison import Outcome
from pytest_schedprof.model.metric import CLIENT_BYTECODES
from pytest_schedprof.model.result import VIRTUAL, BackendResult, ClusterFacts

LARGE, SMALL = f"{SCHEDULER}._transition", f"{SCHEDULER}.add_replica"
BEFORE = {LARGE: 100_000.0, SMALL: 1.0}


def compared(
    *sides: BackendResult, kind: str = VIRTUAL, seeds: tuple[str, str] = ("0", "0")
) -> dict[Outcome, set[str]]:
    """Return what changed between two sides, by the outcome."""
    results = [
        measured(
            side,
            cluster=ClusterFacts(kind, "", 8, 8),
            environment=replace(ENVIRONMENT, test_hash_seed=seed),
        )
        for side, seed in zip(sides, seeds, strict=True)
    ]
    (comparison,) = compare(results[:1], results[1:]).comparisons
    subjects: dict[Outcome, set[str]] = {}
    for change in comparison.changes:
        subjects.setdefault(change.outcome, set()).add(change.subject)
    return subjects


ONCE = counted_in([BEFORE])
MORE = counted_in([{**BEFORE, LARGE: 101_000.0}])


@pytest.mark.parametrize("costs", [{SMALL: 1.01}, {LARGE: 101_000.0}])
def test_one_round_is_exact_however_small_the_part_is(costs: dict[str, float]) -> None:
    after = counted_in([{**BEFORE, **costs}])
    assert compared(ONCE, after).keys() == {Outcome.REGRESSED}
    assert compared(ONCE, ONCE) == {}


@pytest.mark.parametrize(
    ("kind", "seeds"),
    [
        (VIRTUAL, ("0", "1")),
        (VIRTUAL, ("random", "random")),
        (VIRTUAL, ("", "")),
        ("simulated", ("0", "0")),
    ],
)
def test_without_one_fixed_seed_and_on_other_clusters_it_is_not(
    kind: str, seeds: tuple[str, str]
) -> None:
    assert Outcome.REGRESSED not in compared(ONCE, MORE, kind=kind, seeds=seeds)


@pytest.mark.parametrize(
    ("kind", "expected"), [(VIRTUAL, {Outcome.UNDECIDED}), ("simulated", set())]
)
def test_rounds_that_differ_at_all_are_told_where_time_plays_no_part(
    kind: str, expected: set[Outcome]
) -> None:
    wavering = counted_in([{**BEFORE, SMALL: value} for value in (0.98, 1.0, 1.02)])
    assert compared(counted_in([BEFORE] * 3), wavering, kind=kind).keys() == expected
    assert compared(wavering, wavering, kind=kind) == {}


MAP, DISPATCH = "distributed.client:Client.map", "dask.utils:Dispatch.dispatch"
REST = "dask.tokenize:tokenize"
CLIENT = {MAP: 100.0, DISPATCH: 300.0, REST: 9_600.0}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ({MAP: 101.0}, {MAP}),
        ({MAP: 100.9}, set()),
        ({DISPATCH: 590.0}, set()),
        ({DISPATCH: 610.0}, {DISPATCH}),
        ({REST: 9_890.0}, set()),
        ({REST: 10_300.0}, {REST}),
        ({REST: 10_400.0}, {REST, ""}),
    ],
)
def test_the_clients_caches_are_taken_into_account(
    after: dict[str, float], expected: set[str]
) -> None:
    """Which test of a session fills a cache of dask depends on their order."""
    assert of_client(CLIENT, {**CLIENT, **after}) == (
        {Outcome.REGRESSED: expected} if expected else {}
    )


@pytest.mark.parametrize(("dispatches", "expected"), [(390.0, set()), (410.0, {DISPATCH})])
def test_the_clients_functions_are_told_from_one_percent_of_its_whole_if_code_differs(
    dispatches: float, expected: set[str]
) -> None:
    after = {**CLIENT, DISPATCH: dispatches}
    differing = of_client(CLIENT, after, ({DISPATCH: "aa"}, {DISPATCH: "bb"}))
    assert differing == ({Outcome.REGRESSED: expected} if expected else {})
    assert of_client(CLIENT, after, ({DISPATCH: "aa"}, {DISPATCH: "aa"})) == {}


def test_a_cheaper_client_is_told_too() -> None:
    dearer = {**CLIENT, MAP: 200.0, DISPATCH: 1_300.0}
    assert of_client(dearer, CLIENT) == {Outcome.IMPROVED: {MAP, DISPATCH, ""}}


def of_client(
    before: dict[str, float],
    after: dict[str, float],
    code: tuple[dict[str, str], dict[str, str]] = ({}, {}),
) -> dict[Outcome, set[str]]:
    """Return what changed between two single rounds, by the outcome."""
    sides = zip((before, after), code, strict=True)
    return compared(*(counted_in([costs], metric=CLIENT_BYTECODES, code=of) for costs, of in sides))
