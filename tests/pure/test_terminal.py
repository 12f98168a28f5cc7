"""Tests of the summary at the end of a session: how the number of tests and -q change its length.

What its lines say of one test, the goldens show.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
BROKEN = limit("share(a:b) <= 30%", Verdict.FAIL)
DOUBTFUL = limit("share(a:b) <= 40%", Verdict.INCONCLUSIVE)
HELD = limit("share(a:b) <= 90%", Verdict.PASS)


def result(*functions: FunctionShare, cpu: float = 0.5, **facts: Any) -> Result:
    """A result with these functions, or with forty by default."""
    backend = BackendResult(
        backend="pyspy",
        mode="gil",
        settings={},
        window=Window(1, (Segment(1.25, cpu, 3000, 6000),)),
        shares=replace(SHARES, functions=functions or SHARES.functions),
        costs=None,
        limits=(),
        artifacts=(),
    )
    return Result(
        test_id=TEST_ID,
        outcome="passed",
        started_at="2025-01-31T12:00:00+00:00",
        cluster=None,
        environment=None,
        confidence=0.95,
        schedprof_version="0",
        backends=(replace(backend, **facts),),
    )


def compared(changes: int, test_id: str) -> Comparison:
    """A comparison with so many regressions."""
    regressed = (
        Change("calls", f"a:f{n}", "comm", Outcome.REGRESSED, 1.0, 2.0, 1.0, 1.0)
        for n in range(changes)
    )
    return Comparison(test_id, "counts", "", tuple(regressed), 0)


def lines(*results: Result, verbosity: int = 0) -> list[Line]:
    return list(summary_lines(results, ".schedprof/run-1", verbosity=verbosity))


def texts(*results: Result, verbosity: int = 0) -> list[str]:
    return [line.text for line in lines(*results, verbosity=verbosity)]


def shown(of: list[str]) -> list[str]:
    """Functions of the table, in its order."""
    return [text.split()[-1].partition(":")[2] for text in of if "distributed.scheduler:" in text]


def suite(tests: int, **facts: Any) -> list[Result]:
    """Tests with names of their own; each needs a second more of the scheduler's CPU."""
    return [
        replace(result(cpu=number, **facts), test_id=f"t.py::test_{number}")
        for number in range(tests)
    ]


def titles(texts: list[str]) -> list[str]:
    """The tests that have a title."""
    return [text.split()[0] for text in texts if text.startswith("t.py::")]


def test_functions_become_fewer_with_the_number_of_tests() -> None:
    """Whole suites are marked, and some have -v in their settings."""
    names = [f"f{n:02}" for n in range(HOT_FUNCTIONS_VERBOSE)]
    assert shown(texts(*suite(FEW_TESTS))) == names[:HOT_FUNCTIONS] * FEW_TESTS
    more = texts(*suite(FEW_TESTS + 1))
    assert shown(more) == ["f00"] * (FEW_TESTS + 1)
    assert more[1].startswith("  pyspy (gil): 900 busy samples, 3000 tasks in 1.25 s")
    assert "    80.0% (78.0% - 82.0%) in distributed.scheduler:f00" in more
    assert shown(texts(*suite(MANY_TESTS), verbosity=1)) == names * MANY_TESTS
    many = suite(MANY_TESTS + 1)
    verbose = texts(*many, verbosity=1)
    assert shown(verbose) == []
    assert len(verbose) == 2 * len(many) + 2
    assert "-vv shows the functions of more than 20 tests" in verbose
    assert shown(texts(*many, verbosity=2)) == names * len(many)


def test_fourteen_tests_take_no_more_than_forty_lines_and_v_shows_all() -> None:
    tests = suite(14)
    brief = texts(*tests)
    assert len(brief) <= 40
    assert titles(brief) == [f"t.py::test_{number}" for number in range(4, 14)]
    assert "4 more tests: -v shows all" in brief
    assert len(titles(texts(*tests, verbosity=1))) == 14
    tests[0] = suite(1, warnings=("torn",))[0]
    assert "4 more tests, 1 with warnings: -v shows all" in texts(*tests)


def test_tests_with_news_come_before_hotter_ones() -> None:
    tests = suite(100)
    tests[1] = replace(tests[1], outcome="failed")
    tests[3] = suite(4, limits=(BROKEN,))[3]
    tests[5] = suite(6, limits=(DOUBTFUL,))[5]
    tests[7] = replace(tests[7], baseline="main", comparisons=(compared(1, "t.py::test_7"),))
    expected = [f"t.py::test_{number}" for number in (1, 3, 5, 7, 94, 95, 96, 97, 98, 99)]
    assert titles(texts(*tests))[:10] == expected


def test_two_hundred_tests_with_news_fit_on_a_few_screens() -> None:
    """They have one cause, and the page of the run shows them all."""
    tests = [
        replace(
            test,
            baseline="main",
            comparisons=(compared(30, test.test_id),),
            null=(compared(30, test.test_id),),
        )
        for test in suite(200, limits=(BROKEN,))
    ]
    brief = texts(*tests)
    assert len(titles(brief)) == WITH_NEWS + 2 * TESTS_IN_BRIEF
    assert "  and 180 more: -v shows all" in brief
    assert brief.count("  and 20 more changes: -v shows all") == 2 * TESTS_IN_BRIEF
    assert brief.count("195 more comparisons: -v shows all") == 2
    assert len(brief) <= 220
    everything = texts(*tests, verbosity=1)
    assert len(titles(everything)) == 600
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


def test_q_says_one_line_and_what_is_broken() -> None:
    last = Line("artifacts of 2 profiled tests: .schedprof/run-1")
    assert lines(result(), result(), verbosity=-1) == [last]
    quiet = lines(result(limits=(BROKEN, DOUBTFUL, HELD)), result(), verbosity=-1)
    broken = f"  broken: {describe(BROKEN)} [{TEST_ID}]"
    assert quiet[1:] == [Line(broken, {"red": True}), last]


def test_a_test_without_any_profile_has_its_title() -> None:
    end = "artifacts of 1 profiled test: .schedprof/run-1"
    assert texts(replace(result(), backends=())) == [f"{TEST_ID}  passed", end]
