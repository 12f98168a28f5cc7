"""Tests of the summary at the end of a session, and how -q and -v change its length."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import shares_in

from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.model.comparison import Change, Comparison, Outcome
from pytest_schedprof.model.limit import Estimate, Finding, LimitResult, Verdict
from pytest_schedprof.model.result import (
    BackendResult,
    FunctionShare,
    MeasuredCosts,
    OwnerShare,
    Result,
    SampledShares,
    Segment,
    Window,
)
from pytest_schedprof.report.changes import WITH_NEWS
from pytest_schedprof.report.comparisons import TESTS_IN_BRIEF
from pytest_schedprof.report.junit import pack, unpack
from pytest_schedprof.report.markup import Line
from pytest_schedprof.report.tables import describe
from pytest_schedprof.report.terminal import (
    FEW_TESTS,
    HOT_FUNCTIONS,
    HOT_FUNCTIONS_VERBOSE,
    MANY_TESTS,
    cost_lines,
    summary_lines,
    unprofiled_lines,
)

TEST_ID = "test_a.py::test_b"


def estimate(value: float) -> Estimate:
    low, high = max(0.0, value - 0.02), min(1.0, value + 0.02)
    return Estimate(value=value, low=low, high=high, samples=900, dispersion=1.0)


def function(name: str, owner: str, share: float, own: float = 0.001) -> FunctionShare:
    return FunctionShare(f"distributed.scheduler:{name}", owner, estimate(share), estimate(own))


def limit(text: str, verdict: Verdict) -> LimitResult:
    findings = (Finding("a:b", estimate(0.4), verdict),)
    return LimitResult(text, verdict, findings, parsed=parse_limit(text))


SHARES = SampledShares(
    busy_samples=900,
    idle_samples=100,
    empty_samples=0,
    inference="blocks",
    functions=tuple(function(f"f{n:02}", "transitions", (80 - n) / 100) for n in range(40)),
    owners=tuple(OwnerShare(f"owner-{n}", estimate((40 - n) / 100)) for n in range(8)),
)
PLAIN = BackendResult(
    backend="pyspy",
    mode="gil",
    settings={},
    window=Window(0, ()),
    shares=SHARES,
    costs=None,
    limits=(),
    artifacts=(),
)


def result(
    *functions: FunctionShare,
    limits: tuple[LimitResult, ...] = (),
    warnings: tuple[str, ...] = (),
    tasks: int = 3000,
) -> Result:
    """A result with these functions, or with forty by default."""
    backend = replace(
        PLAIN,
        window=Window(1, (Segment(1.25, 0.5, tasks, 6000), Segment(1.0, 0.25, 0, 0))),
        shares=replace(SHARES, functions=functions or SHARES.functions),
        limits=limits,
        warnings=warnings,
    )
    return Result(
        test_id=TEST_ID,
        outcome="passed",
        started_at="2025-01-31T12:00:00+00:00",
        cluster=None,
        environment=None,
        confidence=0.95,
        schedprof_version="0",
        backends=(backend,),
    )


BROKEN = limit("share(a:b) <= 30%", Verdict.FAIL)
DOUBTFUL = limit("share(a:b) <= 40%", Verdict.INCONCLUSIVE)


def compared(changes: int, test_id: str) -> Comparison:
    """A comparison with so many regressions."""
    return Comparison(
        test_id,
        "counts",
        "",
        tuple(
            Change("calls", f"a:f{n}", "comm", Outcome.REGRESSED, 1.0, 2.0, 1.0, 1.0)
            for n in range(changes)
        ),
        0,
    )


def lines(*results: Result, verbosity: int = 0) -> list[Line]:
    return list(summary_lines(results, ".schedprof/run-1", verbosity=verbosity))


def texts(*results: Result, verbosity: int = 0) -> list[str]:
    return [line.text for line in lines(*results, verbosity=verbosity)]


def shown(of: list[str]) -> list[str]:
    """Functions of the table, in its order."""
    return [text.split()[-1].partition(":")[2] for text in of if "distributed.scheduler:" in text]


def test_the_default_shows_the_few_hottest_functions_and_v_many() -> None:
    few, many = texts(result()), texts(result(), verbosity=1)
    names = [f"f{n:02}" for n in range(40)]
    assert shown(few) == names[:HOT_FUNCTIONS]
    assert shown(many) == names[:HOT_FUNCTIONS_VERBOSE]
    assert shown(texts(result(), verbosity=2)) == names[:HOT_FUNCTIONS_VERBOSE]
    assert HOT_FUNCTIONS < HOT_FUNCTIONS_VERBOSE < 40


def test_many_tests_get_a_headline_each_and_their_functions_under_vv() -> None:
    """Whole suites are marked, and some have -v in their settings."""
    many = [result()] * (MANY_TESTS + 1)
    told = texts(*many, verbosity=1)
    assert shown(told) == []
    assert len(told) == 2 * len(many) + 2
    assert "-vv shows the functions of more than 20 tests" in told
    assert len(shown(texts(*many, verbosity=2))) == len(many) * HOT_FUNCTIONS_VERBOSE
    assert len(shown(texts(*many[1:], verbosity=1))) == MANY_TESTS * HOT_FUNCTIONS_VERBOSE


def suite(tests: int, **changes: Any) -> list[Result]:
    """Tests with names of their own; a later one needs more of the scheduler's CPU."""
    return [
        replace(result(tasks=1000 + number), test_id=f"t.py::test_{number}", **changes)
        for number in range(tests)
    ]


def heated(tests: list[Result]) -> list[Result]:
    """The same tests, where each needs a second more of CPU than the one before."""
    return [
        replace(
            each,
            backends=tuple(
                replace(b, window=Window(1, (Segment(9.0, number, 10, 20),))) for b in each.backends
            ),
        )
        for number, each in enumerate(tests)
    ]


def named(told: list[str]) -> list[str]:
    """The tests that have a title."""
    return [text.split()[0] for text in told if text.startswith("t.py::")]


def test_a_few_tests_are_shown_with_tables_and_more_with_their_hottest_function() -> None:
    assert len(shown(texts(*suite(FEW_TESTS)))) == FEW_TESTS * HOT_FUNCTIONS
    told = texts(*suite(FEW_TESTS + 1))
    assert shown(told) == ["f00"] * (FEW_TESTS + 1)
    assert "    80.0% (78.0% - 82.0%) in distributed.scheduler:f00" in told


def test_fourteen_tests_take_no_more_than_forty_lines_and_v_shows_all() -> None:
    tests = heated(suite(14))
    told = texts(*tests)
    assert len(told) <= 40
    assert named(told) == [f"t.py::test_{number}" for number in range(4, 14)]
    assert "4 more tests: -v shows all" in told
    assert len(named(texts(*tests, verbosity=1))) == 14


def test_tests_with_news_come_before_hotter_ones() -> None:
    tests = heated(suite(100))
    tests[1] = replace(tests[1], outcome="failed")
    tests[3] = replace(tests[3], backends=(replace(PLAIN, limits=(BROKEN,)),))
    tests[5] = replace(tests[5], backends=(replace(PLAIN, limits=(DOUBTFUL,)),))
    tests[7] = replace(tests[7], baseline="main", comparisons=(compared(1, "t.py::test_7"),))
    expected = [f"t.py::test_{number}" for number in (1, 3, 5, 7, 94, 95, 96, 97, 98, 99)]
    assert named(texts(*tests))[:10] == expected


def test_warnings_of_tests_that_are_left_out_are_counted() -> None:
    tests = heated(suite(14))
    tests[0] = replace(tests[0], backends=(replace(tests[0].backends[0], warnings=("torn",)),))
    assert "4 more tests, 1 with warnings: -v shows all" in texts(*tests)


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.INCONCLUSIVE])
def test_two_hundred_tests_with_news_fit_on_a_few_screens(verdict: Verdict) -> None:
    """They have one cause, and the page of the run shows them all."""
    tests = [
        replace(
            each,
            baseline="main",
            backends=(replace(each.backends[0], limits=(limit("share(a:b) <= 30%", verdict),)),),
            comparisons=(compared(30, each.test_id),),
            null=(compared(30, each.test_id),),
        )
        for each in heated(suite(200))
    ]
    told = texts(*tests)
    assert len(named(told)) == WITH_NEWS + 2 * TESTS_IN_BRIEF
    assert "  and 180 more: -v shows all" in told
    assert told.count("  and 20 more changes: -v shows all") == 2 * TESTS_IN_BRIEF
    assert told.count("195 more comparisons: -v shows all") == 2
    assert len(told) <= 220
    everything = texts(*tests, verbosity=1)
    assert len(named(everything)) == 600
    assert not any("shows all" in text for text in everything)


def test_costs_without_tasks_have_no_line_of_the_whole() -> None:
    costs = MeasuredCosts((), {"transitions": 3.0, "messages_in": 2.0})
    assert list(cost_lines(costs, 0, 5)) == []
    assert [line.text for line in cost_lines(costs, 2, 5)] == [
        "  whole scheduler: transitions 1.5/task, messages_in 1/task"
    ]


def test_tests_without_a_scheduler_are_counted_and_under_v_listed() -> None:
    one, *rest = [line.text for line in unprofiled_lines(["a::b"], 0)]
    assert one.startswith(
        "not profiled: 1 test ran no scheduler in the test's process, and no marker"
    )
    assert rest == []
    two, *rest = [line.text for line in unprofiled_lines(["a::b", "a::c"], 1)]
    assert two.startswith("not profiled: 2 tests ran no scheduler")
    assert rest == ["  a::b", "  a::c"]


def test_q_says_one_line() -> None:
    assert texts(result(), result(), verbosity=-1) == [
        "artifacts of 2 profiled tests: .schedprof/run-1"
    ]


def test_q_does_not_hide_a_broken_limit() -> None:
    broken = limit("share(a:b) <= 30%", Verdict.FAIL)
    said = texts(result(limits=(broken,)), verbosity=-1)
    assert any(describe(broken) in text and TEST_ID in text for text in said)
    assert shown(said) == []


@pytest.mark.parametrize("owner", ["event-loop", "connections", "other", "foreign"])
def test_what_surrounds_all_others_counts_by_its_own_time_alone(owner: str) -> None:
    said = texts(
        result(
            function("surrounds", owner, 1.0, 0.0),
            function("busy_itself", owner, 0.9, 0.4),
            function("first", "transitions", 0.5, 0.0),
            function("second", "comm", 0.3, 0.3),
        )
    )
    assert shown(said) == ["first", "busy_itself", "second"]


def test_columns_line_up_for_shares_of_any_size() -> None:
    sure = Estimate(value=1.0, low=0.9996, high=1.0, samples=9000, dispersion=1.0)
    everything = FunctionShare("distributed.scheduler:all", "memory-manager", sure, sure)
    said = texts(result(everything, function("hot", "comm", 0.5), function("cold", "gc", 0.01)))
    rows = [text for text in said if "distributed.scheduler:" in text]
    header = next(text for text in said if text.endswith("function"))
    assert len(rows) == 3
    assert {row.index("distributed.") for row in rows} == {header.index("function")}
    assert [len(row.split()) for row in rows] == [7, 7, 7]


def test_a_window_without_tasks_has_no_cost_per_task() -> None:
    headline = texts(result(tasks=0))[1]
    assert headline == "  pyspy (gil): 900 busy samples, 0 tasks in 2.25 s, 33% of a core"


def test_a_mode_is_named_only_if_there_is_one() -> None:
    plain = result()
    plain = replace(plain, backends=(replace(plain.backends[0], mode=""),))
    assert texts(plain)[1].startswith("  pyspy: 900 busy samples")


def test_a_profile_without_functions_has_no_table() -> None:
    nothing = replace(SHARES, functions=(), owners=(), busy_samples=0)
    empty = replace(result(), backends=(replace(PLAIN, shares=nothing),))
    said = texts(empty)
    assert len(said) == 3
    assert said[1].startswith("  pyspy (gil): 0 busy samples")


def test_a_test_without_any_profile_is_named_all_the_same() -> None:
    lost = replace(result(), backends=())
    assert texts(lost) == [f"{TEST_ID}  passed", "artifacts of 1 profiled test: .schedprof/run-1"]


def test_warnings_are_shown_in_yellow() -> None:
    assert Line("  warning: 7 % of the samples were torn", {"yellow": True}) in lines(
        result(warnings=("7 % of the samples were torn",))
    )


def test_without_limits_nothing_is_said_of_limits() -> None:
    assert not any("limit" in text for text in texts(result()))


@pytest.mark.parametrize(
    ("verdicts", "text", "markup"),
    [
        ((Verdict.PASS,), "limits: 1 passed", "green"),
        ((Verdict.PASS, Verdict.PASS), "limits: 2 passed", "green"),
        ((Verdict.INCONCLUSIVE, Verdict.PASS), "limits: 1 passed, 1 inconclusive", "yellow"),
        (
            (Verdict.INCONCLUSIVE, Verdict.PASS, Verdict.FAIL, Verdict.FAIL),
            "limits: 1 passed, 2 broken, 1 inconclusive",
            "red",
        ),
    ],
)
def test_limits_are_counted_in_the_colour_of_the_worst(
    verdicts: tuple[Verdict, ...], text: str, markup: str
) -> None:
    limits = tuple(limit(f"share(a:b{n}) <= 30%", each) for n, each in enumerate(verdicts))
    together = [line for line in lines(result(limits=limits)) if line.text.startswith("limits:")]
    assert together == [Line(text, {markup: True})]
    each_in_a_test = [result(limits=(one,)) for one in limits]
    assert Line(text, {markup: True}) in lines(*each_in_a_test)


@pytest.mark.parametrize("verbosity", [-1, 0, 1])
def test_limits_that_did_not_pass_are_told_with_evidence_and_test(verbosity: int) -> None:
    broken = limit("share(a:broken) <= 30%", Verdict.FAIL)
    doubtful = limit("share(a:doubtful) <= 40%", Verdict.INCONCLUSIVE)
    kept = limit("share(a:kept) <= 90%", Verdict.PASS)
    said = lines(result(limits=(broken, doubtful, kept)), verbosity=verbosity)
    assert Line(f"  broken: {describe(broken)} [{TEST_ID}]", {"red": True}) in said
    line = Line(f"  inconclusive: {describe(doubtful)} [{TEST_ID}]", {"yellow": True})
    assert (line in said) == (verbosity >= 0)
    line = Line(f"  passed: {describe(kept)} [{TEST_ID}]", {"green": True})
    assert (line in said) == (verbosity > 0)


def test_a_limit_without_a_verdict_says_why() -> None:
    text = "share(a:b) <= 30%"
    unknown = LimitResult(
        text, Verdict.INCONCLUSIVE, (), "7 busy samples", parsed=parse_limit(text)
    )
    said = texts(result(limits=(unknown,)))
    assert f"  inconclusive: share(a:b) <= 30%: 7 busy samples [{TEST_ID}]" in said


EVERYTHING = result(
    function("surrounds", "event-loop", 1.0, 0.0),
    *SHARES.functions,
    function("loop_itself", "event-loop", 0.9, 0.6),
    limits=(limit("share(a:b) <= 30%", Verdict.FAIL), limit("share(a:c) <= 90%", Verdict.PASS)),
    warnings=("torn",),
)


@pytest.mark.parametrize("verbosity", [-1, 0, 1])
def test_a_result_from_an_xdist_worker_reads_as_if_it_were_the_session_s_own(
    verbosity: int,
) -> None:
    travelled = unpack(pack(EVERYTHING, None)).result
    assert lines(travelled, verbosity=verbosity) == lines(EVERYTHING, verbosity=verbosity)
    assert travelled.verdict is EVERYTHING.verdict


def plain(value: object) -> bool:
    """Return whether pytest-xdist can send the value between processes; it refuses subclasses."""
    if type(value) in (list, tuple):
        assert isinstance(value, (list, tuple))
        return all(map(plain, value))
    if type(value) is dict:
        assert isinstance(value, dict)
        return all(type(key) is str and plain(each) for key, each in value.items())
    return type(value) in (str, int, float, bool, type(None))


def test_a_result_travels_as_plain_values_and_cut_short() -> None:
    packed = pack(EVERYTHING, Path("/tmp/run-1/tests/x"))
    assert plain(packed)
    assert unpack(json.loads(json.dumps(packed))) == unpack(packed)
    assert unpack(packed).directory == str(Path("/tmp/run-1/tests/x"))
    assert len(shares_in(unpack(packed).result).functions) == HOT_FUNCTIONS_VERBOSE


def test_a_result_without_a_directory_travels_without_one() -> None:
    assert unpack(pack(EVERYTHING, None)).directory == ""
