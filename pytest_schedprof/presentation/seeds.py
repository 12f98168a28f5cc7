"""Tests that ran under several seeds, as one: a figure is then the set of its values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pytest_schedprof.analysis.recent import label_of
from pytest_schedprof.model.metric import METRICS, readable
from pytest_schedprof.model.result import Result
from pytest_schedprof.presentation.amounts import counted

SEED = re.compile(r"(?<=[\[-])seed(-?\d+)(?=[\]-])")
"""The part of a test's name that tells its seed."""


class SeededTest(NamedTuple):
    """The results of one test under its seeds."""

    name: str
    """With a star in the place of the seed."""
    results: dict[int, Result]


def by_seed(results: Sequence[Result]) -> tuple[list[SeededTest], list[Result]]:
    """Return the tests that ran under several seeds, and the results of all others."""
    tests: dict[str, SeededTest] = {}
    for each in results:
        if found := SEED.search(each.test_id):
            name = SEED.sub("seed*", each.test_id, count=1)
            tests.setdefault(name, SeededTest(name, {})).results[int(found[1])] = each
    several = [each for each in tests.values() if len(each.results) > 1]
    grouped = {result.test_id for each in several for result in each.results.values()}
    return several, [each for each in results if each.test_id not in grouped]


def outcomes_of(test: SeededTest) -> str:
    """Return how many seeds came to which outcome; those that did not pass by name."""
    words = []
    for outcome in dict.fromkeys(each.outcome for each in test.results.values()):
        seeds = [seed for seed, each in test.results.items() if each.outcome == outcome]
        words.append(f"{len(seeds)} {outcome}{_named(seeds) if outcome != 'passed' else ''}")
    return f"{counted(len(test.results), 'seed')}: {', '.join(words)}"


def _named(seeds: Sequence[int], most: int = 5) -> str:
    named = ", ".join(f"seed{each}" for each in sorted(seeds)[:most])
    return f" ({named}{', ...' if len(seeds) > most else ''})"


def ranges_of(test: SeededTest) -> dict[str, list[str]]:
    """Return the range of each figure of the whole scheduler, by the label of its backend."""
    values: dict[str, dict[str, list[float]]] = {}
    for result in test.results.values():
        for backend in result.backends:
            for name, amount in (backend.costs.whole if backend.costs else {}).items():
                if name in METRICS and not METRICS[name].is_sampled and METRICS[name].is_peak:
                    values.setdefault(label_of(backend), {}).setdefault(name, []).append(amount)
    return {label: [_range(*each) for each in found.items()] for label, found in values.items()}


def _range(name: str, values: Sequence[float]) -> str:
    low, high = (readable(each, METRICS[name]) for each in (min(values), max(values)))
    return f"{name} {low}" if low == high else f"{name} {low} to {high}"
