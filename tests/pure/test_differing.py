"""Tests of comparing other settings, which are told, and runs that are the same each time."""

from __future__ import annotations

from typing import Any

import pytest
from measured import ENVIRONMENT, SCHEDULER, compare, counted, counted_in, measured, sampled
from msgspec.structs import replace

from pytest_schedprof.judge.compare import compare_in_turns, compare_one
from pytest_schedprof.judge.estimate import ALPHA
from pytest_schedprof.judge.exact import OTHER_GRAPHS
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.judge.matching import differing_settings
from pytest_schedprof.model.comparison import Comparison, Outcome, Setting
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.metric import CLIENT_BYTECODES
from pytest_schedprof.model.result import (
    VIRTUAL,
    BackendResult,
    ClusterFacts,
    Environment,
    MeasuredCosts,
    Result,
)
from pytest_schedprof.model.run import identities
from pytest_schedprof.report.changes import change_sentence, conditions_of
from pytest_schedprof.report.comparisons import as_markdown, report_lines
from pytest_schedprof.report.markup import plain
from pytest_schedprof.report.summary import run_markdown

COSTS = {f"{SCHEDULER}._transition": 1052.0, f"{SCHEDULER}.check_idle_saturated": 178.0}

HERE = ClusterFacts("simulated", "x", 16, 16, {})


def environment(**facts: Any) -> Environment:
    return replace(ENVIRONMENT, **facts)


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({}, {"cluster": replace(HERE, workers=8, threads=8)}, [("workers", "16", "8")]),
        ({}, {"cluster": replace(HERE, threads=32)}, [("threads", "1", "2")]),
        (
            {},
            {"environment": environment(configuration={"validate": "True", "new": "1"})},
            [("distributed.scheduler.validate", "False", "True")],
        ),
        (
            {"cluster": HERE},
            {"cluster": replace(HERE, options={"duration": "1s", "config.array.rechunk": "p2p"})},
            [("array.rechunk", "default", "p2p"), ("duration", "default", "1s")],
        ),
        (
            {"cluster": replace(HERE, options={"config.distributed.scheduler.validate": "false"})},
            {"cluster": HERE},
            [],  # what was given is the default
        ),
        (
            {"environment": environment(event_loop="asyncio")},
            {"environment": environment(event_loop="uvloop")},
            [("distributed.admin.event-loop", "asyncio", "uvloop")],
        ),
        ({}, {"environment": environment(event_loop="uvloop")}, []),
        ({}, {"environment": environment(scheduler_python="3.12.1")}, [("Python", "3.11", "3.12")]),
    ],
)
def test_settings_that_differ_are_found_in_the_records(
    before: dict[str, Any], after: dict[str, Any], lines: list[tuple[str, str, str]]
) -> None:
    one, other = measured(**before), measured(**after)
    assert differing_settings(one, other) == tuple(Setting(*result) for result in lines)
    assert len(differing_settings(other, one)) == len(lines)
    assert differing_settings(one, one) == ()


def test_two_runs_with_other_settings_are_compared_and_the_settings_told() -> None:
    more = {name: cost * 1.1 for name, cost in COSTS.items()}
    before = measured(counted(COSTS))
    after = measured(counted(more), cluster=ClusterFacts("simulated", "x", 1000, 1000))
    report = compare([before], [after])
    (comparison,) = report.comparisons
    assert comparison.verdict is Verdict.FAIL
    assert comparison.settings == (Setting("workers", "16", "1000"),)
    words = "settings that differ: workers (16 before, 1000 now)"
    assert words in [line.text.strip() for line in report_lines(report)]
    assert f"- {plain(words)}" in as_markdown(report).splitlines()
    kept = replace(after, baseline="main", comparisons=report.comparisons)
    assert f"- {plain(words)}" in run_markdown([kept], "x").splitlines()


def test_settings_of_some_tests_are_told_with_their_number() -> None:
    results = [measured(counted(COSTS), test_id=name) for name in ("a", "b", "c")]
    wider = [
        replace(side, cluster=ClusterFacts("simulated", "x", n, n))
        for side, n in zip(results, (16, 20, 20), strict=True)
    ]
    (_, lines) = report_lines(compare(results, wider))
    assert lines.text.strip() == (
        "settings that differ in 2 of 3 comparisons: workers (16 before, 20 now)"
    )


def test_a_result_with_the_same_settings_comes_before_newer_ones() -> None:
    same = measured(counted(COSTS), started_at="2026-01-01")
    newer = measured(
        counted(COSTS), started_at="2026-02-01", environment=environment(configuration={})
    )
    other = replace(newer, cluster=ClusterFacts("simulated", "x", 8, 8))
    candidates = [_measurement(side) for side in (other, same)]
    now = _measurement(measured(counted(COSTS)))
    assert compare_one(candidates, now).settings == ()
    assert compare_one(candidates[:1], now).settings != ()


def test_a_baseline_keeps_the_results_of_each_setting() -> None:
    wide, options = replace(HERE, workers=1000), replace(HERE, options={"duration": "1s"})
    results = [measured(counted(COSTS), cluster=result) for result in (HERE, wide, options)]
    results.append(measured(counted(COSTS), environment=environment(event_loop="uvloop")))
    assert len(identities(results)) == 4


def _measurement(result: Result) -> Measurement:
    (backend,) = result.backends
    return Measurement(result, backend)


DECIDED = {"makespan": 4.0, "transferred": 8e8, "steals": 0.0}


def decided(figures: dict[str, float], tasks: int = 1000) -> BackendResult:
    """A result of the backend `decisions`, with a figure per task besides."""
    made = counted(COSTS, tasks=tasks)
    whole = {**figures, "transitions": 4.0 * 3 * tasks}
    return replace(made, backend="decisions", costs=MeasuredCosts((), whole))


def in_turns(before: BackendResult, after: BackendResult, **facts: Any) -> Comparison:
    one, other = measured(before), measured(after, **facts)
    return compare_in_turns(_measurement(one), _measurement(other), ALPHA)


def test_decisions_are_compared_as_figures_of_the_whole_window() -> None:
    comparison = in_turns(
        decided(DECIDED), decided({**DECIDED, "makespan": 5.0, "transferred": 4e8})
    )
    changes = {change.metric: change for change in comparison.changes}
    assert changes["makespan"].outcome is Outcome.REGRESSED
    assert (changes["makespan"].before, changes["makespan"].after) == (4.0, 5.0)
    assert changes["transferred"].outcome is Outcome.IMPROVED
    assert change_sentence(comparison, changes["makespan"]) == (
        "makespan of the scheduler: 4 s before, 5 s now (+25.00%)"
    )
    assert comparison.same == 2


def test_decisions_are_comparable_when_a_setting_changes_the_number_of_tasks() -> None:
    """As the method of shuffling does, and fusion: costs are then those of a round."""
    fewer = decided({**DECIDED, "makespan": 5.0}, tasks=500)
    comparison = in_turns(decided(DECIDED), fewer)
    changes = {change.metric: change for change in comparison.changes}
    assert {name: result.outcome for name, result in changes.items()} == {
        "makespan": Outcome.REGRESSED,
        "transitions": Outcome.IMPROVED,
    }
    transitions = changes["transitions"]
    assert (transitions.before, transitions.after) == (4000, 2000)
    assert change_sentence(comparison, transitions).endswith(
        "4,000 before, 2,000 now per round (-50.00%)"
    )
    assert comparison.reasons == ()
    assert list(comparison.tasks or ()) == [1000, 500]
    assert next(conditions_of(comparison)).startswith(
        "costs are per round: the body made 1,000 tasks"
    )
    assert comparison.verdict is Verdict.FAIL
    # The body of another session may be another one.
    (apart,) = compare([measured(decided(DECIDED))], [measured(fewer)]).comparisons
    assert apart.changes == ()
    assert apart.verdict is Verdict.INCONCLUSIVE


def test_another_python_leaves_decisions_and_times_comparable_but_no_bytecodes() -> None:
    newer: dict[str, Any] = {"environment": environment(scheduler_python="3.12.1")}
    comparison = in_turns(decided(DECIDED), decided({**DECIDED, "makespan": 5.0}), **newer)
    assert comparison.verdict is Verdict.FAIL
    assert comparison.reasons == ()
    counts = in_turns(counted(COSTS), counted({name: 1.0 for name in COSTS}), **newer)
    assert counts.reasons == ("bytecodes of Python 3.11 and 3.12 are not the same",)
    assert counts.changes == ()
    assert counts.settings == (Setting("Python", "3.11", "3.12"),)
    times = sampled({("distributed.scheduler:a",): 1.0})
    (saved,) = compare([measured(times)], [measured(times, **newer)]).comparisons
    assert saved.reasons == ()
    assert saved.settings == counts.settings


LARGE, SMALL = f"{SCHEDULER}._transition", f"{SCHEDULER}.add_replica"
BEFORE = {LARGE: 100_000.0, SMALL: 1.0}


def compared(
    *sides: BackendResult,
    kind: str = VIRTUAL,
    seeds: tuple[str, str] = ("random", "random"),
    graphs: tuple[str, str] = ("same", "same"),
) -> dict[Outcome, set[str]]:
    """Return what changed between two sides, by the outcome; graphs are hashes of what was sent."""
    cluster = ClusterFacts(kind, "", 8, 8)
    results = []
    for side, seed, graph in zip(sides, seeds, graphs, strict=True):
        segments = tuple(replace(segment, graphs=graph) for segment in side.window.segments)
        sent = replace(side, window=replace(side.window, segments=segments))
        seeded = environment(test_hash_seed=seed)
        results.append(measured(sent, cluster=cluster, environment=seeded))
    (comparison,) = compare(results[:1], results[1:]).comparisons
    open_ones = [change for change in comparison.changes if change.outcome is Outcome.UNDECIDED]
    assert graphs[0] == graphs[1] or all(change.note == OTHER_GRAPHS for change in open_ones)
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
    ("kind", "seeds", "graphs", "expected"),
    [
        (VIRTUAL, ("0", "1"), ("one", "other"), {Outcome.UNDECIDED}),
        (VIRTUAL, ("random", "random"), ("one", "other"), {Outcome.UNDECIDED}),
        (VIRTUAL, ("random", "random"), ("", "one"), {Outcome.UNDECIDED}),  # of an older release
        (VIRTUAL, ("0", "0"), ("one", "two"), {Outcome.REGRESSED}),
        ("simulated", ("0", "0"), ("", ""), {Outcome.UNDECIDED}),
    ],
)
def test_a_rise_is_open_if_the_order_of_a_set_may_be_its_cause(
    kind: str, seeds: tuple[str, str], graphs: tuple[str, str], expected: set[Outcome]
) -> None:
    assert compared(ONCE, MORE, kind=kind, seeds=seeds, graphs=graphs).keys() == expected


@pytest.mark.parametrize(
    ("digest", "outcome"), [("aa", Outcome.UNDECIDED), ("bb", Outcome.REGRESSED)]
)
def test_a_rise_of_other_code_is_no_matter_of_order(digest: str, outcome: Outcome) -> None:
    before = counted_in([BEFORE], code={LARGE: "aa"})
    after = counted_in([{**BEFORE, LARGE: 101_000.0}], code={LARGE: digest})
    assert LARGE in compared(before, after, graphs=("one", "other"))[outcome]


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
TOKENIZE = "dask.tokenize:tokenize"
CLIENT = {MAP: 100.0, DISPATCH: 300.0, TOKENIZE: 9_600.0}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ({MAP: 101.0}, {MAP}),
        ({MAP: 100.9}, set()),
        ({DISPATCH: 590.0}, set()),
        ({DISPATCH: 610.0}, set()),  # a shift: it is a cache, with the same code
        ({TOKENIZE: 9_890.0}, set()),
        ({TOKENIZE: 10_300.0}, {TOKENIZE}),
        ({TOKENIZE: 10_400.0}, {TOKENIZE, ""}),
    ],
)
def test_the_clients_caches_are_taken_into_account(
    after: dict[str, float], expected: set[str]
) -> None:
    """Which test of a session fills a cache of dask depends on their order."""
    outcomes = of_client(CLIENT, {**CLIENT, **after})
    assert outcomes.get(Outcome.REGRESSED, set()) == expected
    assert outcomes.keys() <= {Outcome.REGRESSED, Outcome.SHIFTED}


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
    return compared(
        *(counted_in([costs], metric=CLIENT_BYTECODES, code=code) for costs, code in sides)
    )
