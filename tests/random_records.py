"""Strategies that make any record which the package may write."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st

from pytest_schedprof.model.limit import Estimate, Finding, Limit, LimitResult, Verdict
from pytest_schedprof.model.result import (
    BackendResult,
    ClusterFacts,
    Environment,
    FunctionCost,
    FunctionShare,
    MeasuredCosts,
    OwnerShare,
    Result,
    SampledShares,
    Segment,
    Window,
)
from pytest_schedprof.model.run import Commit, Run, TestEntry
from pytest_schedprof.store.places import is_below
from pytest_schedprof.store.records import MOST

T = TypeVar("T")


def tuples(elements: st.SearchStrategy[T], most: int = 2) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(elements, max_size=most).map(tuple)


TEXT = st.text(max_size=12)
FILE = TEXT.filter(is_below)
"""A file that a record may name: one below the directory of the record."""
TEXTS = tuples(TEXT)
COUNTS = st.integers(0, 2**53)
NUMBERS = st.floats(-MOST, MOST)
VERDICTS = st.sampled_from(Verdict)
ESTIMATES = st.builds(Estimate, NUMBERS, NUMBERS, NUMBERS, COUNTS, NUMBERS)
LIMITS = st.builds(
    LimitResult,
    TEXT,
    VERDICTS,
    tuples(st.builds(Finding, TEXT, ESTIMATES, VERDICTS)),
    st.builds(Limit, TEXT, TEXT, NUMBERS, TEXT, TEXT, NUMBERS),
    TEXT,
)
SETTINGS = st.dictionaries(
    TEXT, st.one_of(st.booleans(), COUNTS, NUMBERS, TEXT, st.lists(TEXT), st.none()), max_size=4
)
WINDOWS = st.builds(Window, COUNTS, tuples(st.builds(Segment, NUMBERS, NUMBERS, COUNTS, COUNTS), 3))
SHARES = st.builds(
    SampledShares,
    busy_samples=COUNTS,
    idle_samples=COUNTS,
    empty_samples=COUNTS,
    inference=st.sampled_from(["rounds", "blocks"]),
    functions=tuples(st.builds(FunctionShare, TEXT, TEXT, ESTIMATES, ESTIMATES)),
    owners=tuples(st.builds(OwnerShare, TEXT, ESTIMATES)),
)
TOTALS = st.dictionaries(TEXT, NUMBERS, max_size=3)
COSTS = st.builds(MeasuredCosts, tuples(st.builds(FunctionCost, TEXT, TEXT, TOTALS)), TOTALS)
BACKENDS = st.builds(
    BackendResult,
    backend=TEXT,
    mode=TEXT,
    settings=SETTINGS,
    window=WINDOWS,
    shares=st.none() | SHARES,
    costs=st.none() | COSTS,
    limits=tuples(LIMITS),
    artifacts=tuples(FILE),
    warnings=TEXTS,
)
ENVIRONMENTS = st.builds(
    Environment, TEXT, TEXT, TEXT, COUNTS, TEXT, TEXT, st.dictionaries(TEXT, TEXT, max_size=3)
)
RESULTS = st.builds(
    Result,
    test_id=TEXT,
    outcome=TEXT,
    started_at=TEXT,
    cluster=st.builds(ClusterFacts, TEXT, TEXT, COUNTS, COUNTS),
    environment=ENVIRONMENTS,
    confidence=NUMBERS,
    schedprof_version=TEXT,
    backends=tuples(BACKENDS),
    troubles=TEXTS,
)
RUNS = st.builds(
    Run,
    run_id=TEXT,
    started_at=TEXT,
    exit_status=st.integers(-(2**31), 2**31),
    tests=tuples(st.builds(TestEntry, TEXT, TEXT, VERDICTS, FILE | st.just(""))),
    commit=st.none() | st.builds(Commit, TEXT, TEXT, TEXT, st.booleans()),
)
