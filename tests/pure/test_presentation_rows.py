"""Rows of functions, owners, costs, changes and limits, and the words beside them.

The goldens show them as readers see them; here are the amounts and cases that no session has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from measured import SCHEDULER, counted, measured, sampled

from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.model.backend import BackendFacts
from pytest_schedprof.model.comparison import Change, Comparison, Outcome, Report
from pytest_schedprof.model.limit import Estimate, Finding, LimitResult, Verdict
from pytest_schedprof.model.result import (
    BackendResult,
    FunctionCost,
    MeasuredCosts,
    Result,
    Segment,
    Window,
)
from pytest_schedprof.report.changes import (
    change_cells,
    changes_of_test,
    comparison_count,
    count_words,
    gravest,
    regressions,
    undecided,
    unmatched_tests,
)
from pytest_schedprof.report.tables import (
    LISTED,
    NO_TIME,
    busy_time,
    cost_table,
    costs_of,
    dearest,
    describe,
    functions_of_run,
    grounds_of,
    hottest,
    limit_words,
    limits_of,
    micros_per_sample,
    no_figures,
    owners_of_run,
    sampling,
    skipped_words,
    strip_of,
    whole_costs,
)
from pytest_schedprof.report.words import bounds_of, change_of, interval_of, micros, name_of
from pytest_schedprof.report.words import counted as count_of

LOOP = "asyncio.base_events:BaseEventLoop._run_once"
HANDLE = "distributed.core:Server._handle_comm"
TRANSITION = f"{SCHEDULER}._transition"
WRITE = "distributed.comm.tcp:TCP.write"
SURE = Estimate(0.3, 0.25, 0.35, 900, 1.0)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (micros(0.0), ""),
        (micros(0.12345), "0.123 us"),
        (micros(12.345), "12.3 us"),
        (micros(1234.5), "1,234 us"),
        (micros(2e4), "20.0 ms"),
        (change_of("share", 0.2, 0.25), "+5.0 pp"),
        (change_of("cpu", 2.0, 3.0), "+50.0%"),
        (change_of("calls", 0.0, 0.0), "+0.0%"),
        (change_of("calls", 0.0, 1.0), "from 0"),
        (bounds_of(SURE), "25.0 to 35.0"),
        (bounds_of(SURE, "cpu"), "250 ms to 350 ms"),
        (bounds_of(SURE, "calls"), ""),
        (count_of(1, "test"), "1 test"),
        (count_of(2, "test"), "2 tests"),
        (count_of(2, "series", "series"), "2 series"),
        (" ".join(name_of(TRANSITION)), "distributed.scheduler: SchedulerState._transition"),
        (str(name_of(TRANSITION)), TRANSITION),
        (str(name_of("")), "the scheduler"),
    ],
)
def test_amounts_have_three_digits_and_a_unit_where_it_is_not_obvious(
    words: str, text: str
) -> None:
    assert words == text


def test_an_interval_stays_within_its_scale() -> None:
    drawn = interval_of(Estimate(0.5, -1.0, 3.0, 9, 1.0), 2.0, limit=1.0, before=9.0)
    assert (drawn.low, drawn.value, drawn.high, drawn.limit, drawn.before) == (0, 0.25, 1, 0.5, 1)
    assert interval_of(Estimate(0.0, 0.0, 0.0, 0, 0.0), 0.0).high == 0


SAMPLED = sampled(
    {(LOOP, HANDLE, TRANSITION): 0.6, (LOOP, HANDLE, WRITE): 0.3, (LOOP, HANDLE): 0.1}
)


def test_functions_and_owners_cost_what_their_samples_stand_for() -> None:
    shares = SAMPLED.shares
    assert shares is not None
    rows = hottest(shares.functions, LISTED)
    assert [row.function for row in rows] == [TRANSITION, WRITE, HANDLE]  # not the event loop
    cost, _ = costs_of(rows[0].share, busy_time(SAMPLED))
    assert cost == f"{rows[0].share.value * 300:.0f} us"  # of the 300 us that a task costs
    assert sum(row.share.value for row in shares.owners) == pytest.approx(1)
    assert micros_per_sample(SAMPLED) * shares.samples == pytest.approx(300, rel=1e-3)
    costs = counted({TRANSITION: 7.0})
    assert (busy_time(costs), micros_per_sample(costs)) == (NO_TIME, 0.0)
    idle = replace(SAMPLED, window=Window(1, (Segment(1.0, 0.5, 0, 0),)))
    assert micros_per_sample(idle) == 0.0
    assert costs_of(shares.owners[0].share, busy_time(idle)) == ("", "")


def test_tests_together_weigh_by_their_samples() -> None:
    one = sampled({(TRANSITION,): 1.0}, samples=300)
    other = sampled({(WRITE,): 1.0}, samples=100)
    rows = owners_of_run([one, other, counted({TRANSITION: 1.0})])
    assert [(row.owner, row.share.value) for row in rows] == [("transitions", 0.75), ("comm", 0.25)]
    assert [(row.function, row.share.value) for row in functions_of_run([one, other])] == [
        (TRANSITION, 0.75),
        (WRITE, 0.25),
    ]
    assert (owners_of_run([]), functions_of_run([])) == ([], [])


def facts(name: str, rank: int) -> BackendFacts:
    return BackendFacts(name, rank, (), frozenset(), frozenset(), True, False, ())


def test_samples_of_the_most_recommended_backend_are_shown() -> None:
    first, second = replace(SAMPLED, backend="one"), replace(SAMPLED, backend="two")
    result = measured(counted({TRANSITION: 1.0}), first, second)
    assert sampling(result, {"one": facts("one", 2), "two": facts("two", 1)}) is second
    assert sampling(result, {}) is first
    assert sampling(measured(counted({TRANSITION: 1.0})), {}) is None


def test_costs_have_a_column_for_each_metric_that_is_shown() -> None:
    functions = (
        FunctionCost(TRANSITION, "transitions", {"calls": 20.0, "self_seconds": 1.0}),
        FunctionCost("m:idle", "idle", {"seconds": 5.0}),
        FunctionCost(WRITE, "comm", {"calls": 10.0}),
    )
    costs = MeasuredCosts(functions, {"cpu": 1.0, "messages_in": 9.0, "leaked": 2e3})
    table = cost_table(costs, 10, 5, "/task")
    assert table.heads == ("calls/task", "owner", "function")
    assert table.rows == [("2", "transitions", name_of(TRANSITION)), ("1", "comm", name_of(WRITE))]
    assert table.left_out == 1
    own = cost_table(costs, 10, 5, " / task", own_seconds=True)
    assert own.heads[:2] == ("calls / task", "self / task")
    assert own.rows[0][:2] == ("2", "100 ms")
    assert list(whole_costs(costs, 3, "/task")) == [("messages_in/task", "3"), ("leaked", "2 kB")]
    assert [row.function for row in dearest(functions, 1)] == [TRANSITION]  # of the scheduler


def test_without_tasks_only_peaks_are_shown() -> None:
    function = FunctionCost(TRANSITION, "transitions", {"calls": 20.0, "peak": 3e6})
    costs = MeasuredCosts((function,), {"peak": 4e6, "messages_in": 9.0})
    table = cost_table(costs, 0, 5, "/task")
    assert (table.heads, table.rows[0][0]) == (("peak", "owner", "function"), "3 MB")
    assert [text for _, text in whole_costs(costs, 0)] == ["4 MB"]


def change(outcome: Outcome, metric: str = "calls", note: str = "") -> Change:
    return Change(metric, TRANSITION, "transitions", outcome, 2.0, 3.0, 0.5, 1.5, note)


def comparison(*changes: Change, **facts: Any) -> Comparison:
    return replace(Comparison("test_a", "pyspy", "gil", changes, same=7), **facts)


@pytest.mark.parametrize(
    ("metric", "amounts", "cells"),
    [
        ("share", (0.1, 0.2, 0.05, 0.15), ("10.0%", "20.0%", "+10.0 pp", "+5.0 to +15.0 pp")),
        ("calls", (0.0, 2.0, 1.0, 3.0), ("0", "2", "new", "")),
        ("calls", (1.0, 2.0, 1.0, 1.0), ("1", "2", "+100.00%", "")),
    ],
)
def test_a_share_changes_by_points_and_a_new_cost_by_no_factor(
    metric: str, amounts: tuple[float, float, float, float], cells: tuple[str, ...]
) -> None:
    assert change_cells(Change(metric, "@gc", "gc", Outcome.SHIFTED, *amounts))[2:6] == cells


def test_counts_are_of_all_comparisons_and_the_gravest_come_first() -> None:
    doubt = change(Outcome.UNDECIDED, note="run more rounds")
    mixed = comparison(change(Outcome.REGRESSED), doubt, change(Outcome.UNDECIDED, "cpu"))
    assert count_words(mixed) == "1 regressed, 2 undecided, 7 the same"
    assert changes_of_test(mixed) == [mixed.changes[0], mixed.changes[2]]
    better = comparison(change(Outcome.IMPROVED))
    worse = comparison(change(Outcome.REGRESSED), test_id="test_b")
    assert comparison_count([better, worse]) == "1 regressed, 1 improved, 14 the same in 2 tests"
    assert comparison_count([better]) == "1 improved, 7 the same in 1 test"
    order = gravest(iter([better, worse]), 5)
    assert [(test, row.outcome) for test, row in order] == [
        ("test_b", "regressed"),
        ("test_a", "improved"),
    ]
    assert len(gravest([better, worse], 1)) == 1


def test_a_sentence_says_what_regressed_or_is_open() -> None:
    twice = comparison(change(Outcome.REGRESSED), change(Outcome.REGRESSED))
    sentence = f"calls of {TRANSITION}: 2 before, 3 now per task (+50.00%)"
    assert regressions(twice) == f"{sentence}, and 1 more"
    doubt = comparison(change(Outcome.UNDECIDED, note="run more"), reasons=("other workers",))
    assert undecided(doubt) == f"other workers; {sentence}: run more"
    assert (regressions(comparison()), undecided(comparison())) == ("", "")


def test_tests_of_one_side_are_named() -> None:
    report = Report("a", "b", (), ("n",), ("v",), (("o", "p"),), ("u",))
    assert list(unmatched_tests(report)) == [
        *("renamed: o is now p", "new: n", "vanished: v", "failed, and not compared: u"),
    ]


def limit(text: str, *findings: Finding, note: str = "") -> LimitResult:
    verdict = Verdict.worst([finding.verdict for finding in findings])
    return LimitResult(text, verdict, findings, note, parsed=parse_limit(text))


def finding(
    verdict: Verdict, value: float = 0.4, subject: str = TRANSITION, before: float | None = None
) -> Finding:
    earlier = None if before is None else Estimate(before, before, before, 9, 1.0)
    return Finding(subject, Estimate(value, value / 2, value * 2, 900, 1.0), verdict, earlier)


def limited(*limits: LimitResult, unjudged: tuple[str, ...] = ()) -> Result:
    backend: BackendResult = replace(SAMPLED, limits=limits)
    return measured(backend, unjudged=unjudged)


@pytest.mark.parametrize(
    ("text", "finding", "words"),
    [
        (
            "cpu(a:*) <= 1s",
            finding(Verdict.FAIL),
            f"{TRANSITION} takes 400 ms of CPU (at least 200 ms, at most 800 ms) per task over",
        ),
        (
            "calls(a:*) <= 1",
            finding(Verdict.FAIL),
            f"{TRANSITION} takes 0.4 calls per task over 900 tasks",
        ),
        (
            "growth(calls, a:*) <= 1",
            finding(Verdict.FAIL),
            f"{TRANSITION} grows as scale ** 0.4 (at least 0.2, at most 0.8) over 900",
        ),
        (
            "peak <= 1MB",
            finding(Verdict.PASS, 2e6, ""),
            "peak of the scheduler is 2 MB (at least 1 MB, at most 4 MB)",
        ),
    ],
)
def test_a_limit_is_described_by_its_figures(text: str, finding: Finding, words: str) -> None:
    description = describe(limit(text, finding))
    assert description.startswith(f"{text}: ")
    assert words in description


def test_broken_limits_come_first_and_count_their_functions() -> None:
    text = "share(a:*) <= baseline + 2pp"
    both = [finding(Verdict.FAIL, before=0.25), finding(Verdict.FAIL), finding(Verdict.PASS)]
    assert "(before: 25.0%)" in describe(limit(text, *both))
    assert describe(limit(text, *both)).endswith(", and 1 more function")
    held = limit("share(a:b) <= 90%", finding(Verdict.PASS))
    unknown = limit("share(a:b) <= 30%", note="7 busy samples")
    broken = limit("share(a:*) <= 30%", finding(Verdict.FAIL))
    assert describe(unknown) == "share(a:b) <= 30%: 7 busy samples"
    assert no_figures(unknown) == "7 busy samples"
    rows = limits_of(limited(held, unknown, broken))
    assert [row for _, row, _ in rows] == [broken, held, unknown]
    assert rows[2] == ("cputime", unknown, None)
    assert broken.parsed is not None
    assert grounds_of(broken.findings[0], broken.parsed, 2) == "900 busy samples; 2 more functions"


def test_a_relative_limit_is_drawn_where_its_baseline_puts_it() -> None:
    cheaper = finding(Verdict.PASS, 0.1, before=0.4)
    parsed = parse_limit("cpu <= baseline * 1.5")
    strip = strip_of(cheaper, parsed)
    assert strip.limit is not None
    assert strip.before is not None
    assert strip.limit / strip.before == pytest.approx(1.5)
    assert grounds_of(cheaper, parsed) == "900 tasks; before: 400 ms"


def test_limits_are_counted_by_verdict_and_the_skipped_apart() -> None:
    broken = limit("share(a:b) <= 30%", finding(Verdict.FAIL))
    results = [limited(broken, unjudged=("peak <= 1MB",)), limited(broken)]
    assert limit_words(results) == ["2 broken"]
    assert skipped_words(results) == "1 skipped (needs a backend or baseline that was not chosen)"
    assert skipped_words([*results, results[0]]).startswith("2 skipped (need a backend")
    assert (limit_words([]), skipped_words([])) == ([], "")
