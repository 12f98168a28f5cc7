"""Tests of comparing counts of runs that are the same each time, as in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measured import ENVIRONMENT, SCHEDULER, counted_in, measured

from pytest_schedprof.comparison.compare import compare
from pytest_schedprof.model.comparison import Outcome
from pytest_schedprof.model.environment import VIRTUAL, ClusterFacts

LARGE, SMALL = f"{SCHEDULER}._transition", f"{SCHEDULER}.add_replica"
BEFORE = {LARGE: 100_000.0, SMALL: 1.0}


def outcome(after: dict[str, float], seeds: tuple[str, str], kind: str = VIRTUAL) -> set[Outcome]:
    """Compare a single round of each side."""
    sides = [
        measured(
            counted_in([costs]),
            cluster=ClusterFacts(kind, "", 8, 8),
            environment=replace(ENVIRONMENT, test_hash_seed=seed),
        )
        for costs, seed in zip((BEFORE, after), seeds, strict=True)
    ]
    (comparison,) = compare(sides[:1], sides[1:]).comparisons
    return {each.outcome for each in comparison.changes}


@pytest.mark.parametrize("costs", [{SMALL: 1.01}, {LARGE: 101_000.0}])
def test_one_round_is_exact_however_small_the_part_is(costs: dict[str, float]) -> None:
    assert outcome({**BEFORE, **costs}, ("0", "0")) == {Outcome.REGRESSED}
    assert outcome(BEFORE, ("0", "0")) == set()


@pytest.mark.parametrize("seeds", [("0", "1"), ("random", "random"), ("", "")])
def test_without_one_fixed_seed_it_is_not(seeds: tuple[str, str]) -> None:
    assert Outcome.REGRESSED not in outcome({**BEFORE, LARGE: 101_000.0}, seeds)


def test_on_other_clusters_it_is_not() -> None:
    found = outcome({**BEFORE, LARGE: 101_000.0}, ("0", "0"), "simulated")
    assert Outcome.REGRESSED not in found


@pytest.mark.parametrize(("kind", "found"), [(VIRTUAL, {Outcome.UNDECIDED}), ("simulated", set())])
def test_rounds_that_differ_at_all_are_told_where_time_plays_no_part(
    kind: str, found: set[Outcome]
) -> None:
    wavering = [{**BEFORE, SMALL: each} for each in (0.98, 1.0, 1.02)]
    sides = [
        measured(
            counted_in(rounds),
            cluster=ClusterFacts(kind, "", 8, 8),
            environment=replace(ENVIRONMENT, test_hash_seed="0"),
        )
        for rounds in ([BEFORE] * 3, wavering)
    ]
    (comparison,) = compare(sides[:1], sides[1:]).comparisons
    assert {each.outcome for each in comparison.changes} == found
