"""Rows of functions, owners, costs, changes and limits, and the words beside them."""

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
    outcome_words,
    regressions,
    undecided,
    unmatched_tests,
)
from pytest_schedprof.report.tables import (
    LISTED,
    NO_TIME,
    amount_of,
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
from pytest_schedprof.report.words import Name, bounds_of, change_of, interval_of, micros, name_of
from pytest_schedprof.report.words import counted as count_of

LOOP = "asyncio.base_events:BaseEventLoop._run_once"
HANDLE = "distributed.core:Server._handle_comm"
TRANSITION = f"{SCHEDULER}._transition"
WRITE = "distributed.comm.tcp:TCP.write"


def test_a_name_has_two_parts_that_make_the_whole() -> None:
    assert name_of(TRANSITION) == Name("distributed.scheduler:", "SchedulerState._transition")
    assert str(name_of(TRANSITION)) == TRANSITION
    assert (str(name_of("@comm")), str(name_of(""))) == ("@comm", "the scheduler")


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0.0, ""), (0.12345, "0.123 us"), (12.345, "12.3 us"), (1234.5, "1,234 us"), (2e4, "20.0 ms")],
)
def test_cpu_time_has_three_digits_or_more(amount: float, text: str) -> None:
    assert micros(amount) == text


def test_changes_are_relative_unless_they_are_of_shares() -> None:
    assert change_of("share", 0.2, 0.25) == "+5.0 pp"
    assert change_of("cpu", 2.0, 3.0) == "+50.0%"
    assert (change_of("calls", 0.0, 0.0), change_of("calls", 0.0, 1.0)) == ("+0.0%", "from 0")


def test_bounds_have_a_unit_where_the_value_does_not_tell_it() -> None:
    estimate = Estimate(0.3, 0.25, 0.35, 900, 1.0)
    assert bounds_of(estimate) == "25.0 to 35.0"
    assert bounds_of(estimate, "cpu") == "250 ms to 350 ms"
    assert bounds_of(estimate, "calls") == ""


def test_an_interval_stays_within_its_scale() -> None:
    drawn = interval_of(Estimate(0.5, -1.0, 3.0, 9, 1.0), 2.0, limit=1.0, before=9.0)
    assert (drawn.low, drawn.value, drawn.high, drawn.limit, drawn.before) == (0, 0.25, 1, 0.5, 1)
    assert interval_of(Estimate(0.0, 0.0, 0.0, 0, 0.0), 0.0).high == 0


def test_counts_have_the_right_number() -> None:
    assert (count_of(1, "test"), count_of(2, "test")) == ("1 test", "2 tests")
    assert count_of(2, "series", "series") == "2 series"


SAMPLED = sampled(
    {(LOOP, HANDLE, TRANSITION): 0.6, (LOOP, HANDLE, WRITE): 0.3, (LOOP, HANDLE): 0.1}
)


def test_the_hottest_functions_are_shown_with_what_they_cost() -> None:
    assert SAMPLED.shares is not None
    shown = hottest(SAMPLED.shares.functions, LISTED)
    assert [each.function for each in shown] == [TRANSITION, WRITE, HANDLE]  # not the event loop
    share = shown[0].share
    cost, _ = costs_of(share, busy_time(SAMPLED))
    assert cost == f"{share.value * 300:.0f} us"  # of the 300 us that a task costs
    assert len(hottest(SAMPLED.shares.functions, 2)) == 2


def test_without_samples_nothing_is_divided() -> None:
    costs = counted({TRANSITION: 7.0})
    assert busy_time(costs) == NO_TIME
    assert micros_per_sample(costs) == 0.0


def test_owners_cost_together_what_the_busy_samples_stand_for() -> None:
    assert SAMPLED.shares is not None
    assert SAMPLED.shares.owners[0].owner == "transitions"
    assert sum(each.share.value for each in SAMPLED.shares.owners) == pytest.approx(1)
    assert micros_per_sample(SAMPLED) * SAMPLED.shares.samples == pytest.approx(300, rel=1e-3)


def test_tests_together_weigh_by_their_samples() -> None:
    one = sampled({(TRANSITION,): 1.0}, samples=300)
    other = sampled({(WRITE,): 1.0}, samples=100)
    rows = owners_of_run([one, other, counted({TRANSITION: 1.0})])
    assert [(row.owner, row.share.value) for row in rows] == [("transitions", 0.75), ("comm", 0.25)]
    functions = functions_of_run([one, other])
    assert [(row.function, row.share.value) for row in functions] == [
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


def costs_of_whole(*functions: FunctionCost, **whole: float) -> MeasuredCosts:
    return MeasuredCosts(functions, whole)


def test_costs_have_a_column_for_each_metric_that_is_shown() -> None:
    costs = costs_of_whole(
        FunctionCost(TRANSITION, "transitions", {"calls": 20.0, "self_seconds": 1.0}),
        FunctionCost("m:idle", "idle", {"seconds": 5.0}),
        FunctionCost(WRITE, "comm", {"calls": 10.0}),
    )
    table = cost_table(costs, 10, 5, "/task")
    assert table.heads == ("calls/task", "owner", "function")
    assert table.rows == [
        ("2", "transitions", name_of(TRANSITION)),
        ("1", "comm", name_of(WRITE)),
    ]
    assert table.left_out == 1
    own = cost_table(costs, 10, 5, " / task", own_seconds=True)
    assert own.heads[:2] == ("calls / task", "self / task")
    assert own.rows[0][:2] == ("2", "100 ms")


def test_without_tasks_only_peaks_are_shown() -> None:
    function = FunctionCost(TRANSITION, "transitions", {"calls": 20.0, "peak": 3e6})
    costs = costs_of_whole(function, peak=4e6, messages_in=9.0)
    table = cost_table(costs, 0, 5, "/task")
    assert table.heads == ("peak", "owner", "function")
    assert table.rows[0][0] == "3 MB"
    assert [text for _, text in whole_costs(costs, 0)] == ["4 MB"]


def test_the_whole_is_told_without_its_cpu_time() -> None:
    costs = costs_of_whole(cpu=1.0, messages_in=9.0, leaked=2e3)
    assert list(whole_costs(costs, 3, "/task")) == [("messages_in/task", "3"), ("leaked", "2 kB")]


def test_the_dearest_are_functions_of_the_scheduler() -> None:
    functions = [FunctionCost(f"m:f{n}", "idle" if n % 2 else "comm", {}) for n in range(6)]
    assert [each.function for each in dearest(functions, 2)] == ["m:f0", "m:f2"]


def change(outcome: Outcome, metric: str = "calls", note: str = "") -> Change:
    return Change(metric, TRANSITION, "transitions", outcome, 2.0, 3.0, 0.5, 1.5, note)


def comparison(*changes: Change, **facts: Any) -> Comparison:
    return replace(Comparison("test_a", "pyspy", "gil", changes, same=7), **facts)


def test_a_share_changes_by_points_and_a_new_cost_by_no_factor() -> None:
    share = change_cells(Change("share", "@gc", "gc", Outcome.SHIFTED, 0.1, 0.2, 0.05, 0.15))
    assert share[2:6] == ("10.0%", "20.0%", "+10.0 pp", "+5.0 to +15.0 pp")
    new = change_cells(Change("calls", "", "", Outcome.REGRESSED, 0.0, 2.0, 1.0, 3.0))
    assert new[4:6] == ("new", "")
    exact = change_cells(Change("calls", "", "", Outcome.REGRESSED, 1.0, 2.0, 1.0, 1.0))
    assert exact[5] == ""


def test_a_page_shows_what_changed_and_counts_the_rest() -> None:
    doubt = change(Outcome.UNDECIDED, note="run more rounds")
    found = comparison(change(Outcome.REGRESSED), doubt, change(Outcome.UNDECIDED, "cpu"))
    assert count_words(found) == "1 regressed, 2 undecided, 7 the same"
    assert changes_of_test(found) == [found.changes[0], found.changes[2]]


def test_counts_are_of_all_comparisons_and_the_gravest_come_first() -> None:
    better, worse = (comparison(change(each)) for each in (Outcome.IMPROVED, Outcome.REGRESSED))
    worse = replace(worse, test_id="test_b")
    assert comparison_count([better, worse]) == "1 regressed, 1 improved, 14 the same in 2 tests"
    assert comparison_count([better]) == "1 improved, 7 the same in 1 test"
    assert outcome_words([better, worse], [Outcome.IMPROVED]) == ["1 improved"]
    found = gravest((each for each in (better, worse)), 5)
    assert [(test, change.outcome) for test, change in found] == [
        ("test_b", "regressed"),
        ("test_a", "improved"),
    ]
    assert len(gravest([better, worse], 1)) == 1


def test_a_sentence_says_what_regressed_or_is_open() -> None:
    twice = comparison(change(Outcome.REGRESSED), change(Outcome.REGRESSED))
    said = f"calls of {TRANSITION}: 2 before, 3 now per task (+50.00%)"
    assert regressions(twice) == f"{said}, and 1 more"
    assert regressions(comparison()) == ""
    doubt = comparison(change(Outcome.UNDECIDED, note="run more"), reasons=("other workers",))
    assert undecided(doubt) == f"other workers; {said}: run more"
    assert undecided(comparison()) == ""


def test_tests_of_one_side_are_named() -> None:
    report = Report("a", "b", (), ("n",), ("v",), (("o", "p"),), ("u",))
    assert list(unmatched_tests(report)) == [
        *("renamed: o is now p", "new: n", "vanished: v", "failed, and not compared: u"),
    ]


def limit(text: str, *findings: Finding, note: str = "") -> LimitResult:
    verdict = Verdict.worst([each.verdict for each in findings])
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
    ("text", "said"),
    [
        ("share(a:*) <= 30%", "holds 40.0% (at least 20.0%, at most 80.0%) of 900 busy samples"),
        ("cpu(a:*) <= 1s", "takes 400 ms of CPU (at least 200 ms, at most 800 ms) per task over"),
        ("calls(a:*) <= 1", "takes 0.4 calls per task over 900 tasks"),
        ("growth(calls, a:*) <= 1", "grows as scale ** 0.4 (at least 0.2, at most 0.8) over 900"),
    ],
)
def test_a_limit_is_described_by_its_figures(text: str, said: str) -> None:
    described = describe(limit(text, finding(Verdict.FAIL)))
    assert described.startswith(f"{text}: ")
    assert TRANSITION in described
    assert said in described


def test_a_limit_names_its_baseline_and_how_many_more_functions_broke_it() -> None:
    text = "share(a:*) <= baseline + 2pp"
    both = [finding(Verdict.FAIL, before=0.25), finding(Verdict.FAIL), finding(Verdict.PASS)]
    assert "(before: 25.0%)" in describe(limit(text, *both))
    assert describe(limit(text, *both)).endswith(", and 1 more function")
    assert describe(limit("peak <= 1MB", finding(Verdict.PASS, 2e6, ""))) == (
        "peak <= 1MB: peak of the scheduler is 2 MB (at least 1 MB, at most 4 MB)"
    )


def test_a_limit_without_figures_says_why() -> None:
    unknown = limit("share(a:b) <= 30%", note="7 busy samples")
    assert describe(unknown) == "share(a:b) <= 30%: 7 busy samples"
    assert limits_of(limited(unknown)) == [("cputime", unknown, None)]
    assert no_figures(unknown) == "7 busy samples"


def test_broken_limits_come_first_and_count_their_functions() -> None:
    held = limit("share(a:b) <= 90%", finding(Verdict.PASS))
    many = [finding(Verdict.FAIL, subject=f"a:f{n}") for n in range(7)]
    broken = limit("share(a:*) <= 30%", *many)
    assert [one for _, one, _ in limits_of(limited(held, broken))] == [broken, held]
    assert broken.parsed is not None
    assert grounds_of(many[0], broken.parsed, 2) == "900 busy samples; 2 more functions"
    assert grounds_of(many[0], broken.parsed) == "900 busy samples"
    assert amount_of(many[0], broken.parsed) == "40.0%"


def test_a_relative_limit_is_drawn_where_its_baseline_puts_it() -> None:
    found = finding(Verdict.PASS, 0.1, before=0.4)
    parsed = parse_limit("cpu <= baseline * 1.5")
    strip = strip_of(found, parsed)
    assert strip.limit is not None
    assert strip.before is not None
    assert strip.limit / strip.before == pytest.approx(1.5)
    assert grounds_of(found, parsed) == "900 tasks; before: 400 ms"


def test_limits_are_counted_by_verdict_and_the_skipped_apart() -> None:
    broken = limit("share(a:b) <= 30%", finding(Verdict.FAIL))
    results = [limited(broken, unjudged=("peak <= 1MB",)), limited(broken)]
    assert limit_words(results) == ["2 broken"]
    assert skipped_words(results) == "1 skipped (needs a backend or baseline that was not chosen)"
    assert skipped_words([*results, results[0]]).startswith("2 skipped (need a backend")
    assert (limit_words([]), skipped_words([])) == ([], "")


def test_windows_without_tasks_cost_nothing_per_sample() -> None:
    idle = replace(SAMPLED, window=Window(1, (Segment(1.0, 0.5, 0, 0),)))
    assert micros_per_sample(idle) == 0.0
    assert idle.shares is not None
    assert costs_of(idle.shares.owners[0].share, busy_time(idle)) == ("", "")
