"""Rows, words, headlines, facts and series, in amounts and cases that no session of goldens has."""

from __future__ import annotations

from typing import Any

import pytest
from measured import ENVIRONMENT, TEST, TRANSITION, counted, limited, measured, sampled
from msgspec.structs import replace

from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.model.backend import BackendFacts
from pytest_schedprof.model.comparison import Change, Comparison, Outcome, Report
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.limit import Estimate, Finding, LimitResult, Verdict
from pytest_schedprof.model.result import (
    FunctionShare,
    MeasuredCosts,
    OwnerShare,
    Result,
    SampledShares,
    Segment,
    Window,
)
from pytest_schedprof.model.run import Commit, History, Moment, Point, Run, Series, Setting, Step
from pytest_schedprof.report.changes import (
    WITH_NEWS,
    change_cells,
    gravest,
    regressions,
    undecided,
    unmatched_tests,
)
from pytest_schedprof.report.comparisons import TESTS_IN_BRIEF
from pytest_schedprof.report.markup import Line
from pytest_schedprof.report.results import (
    baseline_names,
    environment_notes,
    evidence_notes,
    facts_of_run,
    notes_of,
    waited_words,
)
from pytest_schedprof.report.tables import (
    SharesOfRun,
    describe,
    grounds_of,
    limit_words,
    sampling,
    skipped_words,
    strip_of,
)
from pytest_schedprof.report.terminal import (
    FEW_TESTS,
    HOT_FUNCTIONS,
    HOT_FUNCTIONS_VERBOSE,
    MANY_TESTS,
    cost_lines,
    summary_lines,
    unprofiled_lines,
)
from pytest_schedprof.report.trends import (
    changed_series,
    ends_of,
    history_words,
    notes_of_series,
    series_by_test,
    series_name,
    setting_words,
    shown_series,
)
from pytest_schedprof.report.words import bounds_of, change_of, interval_of, micros, name_of
from pytest_schedprof.report.words import counted as count_of

WRITE = "distributed.comm.tcp:TCP.write"
SURE = Estimate(0.3, 0.25, 0.35, 900, 1.0)


def change_words(metric: str, before: float, after: float, low: float, high: float) -> str:
    """The amounts before and after, the change and its bounds."""
    change = Change(metric, "@gc", "gc", Outcome.SHIFTED, before, after, low, high)
    return " ".join(map(str, change_cells(change)[2:6]))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (micros(0.0), ""),
        (micros(0.12345), "0.123 us"),
        (micros(1234.5), "1,234 us"),
        (micros(2e4), "20.0 ms"),
        (change_of("share", 0.2, 0.25), "+5.0 pp"),
        (change_of("calls", 0.0, 0.0), "+0.0%"),
        (change_of("calls", 0.0, 1.0), "from 0"),
        (bounds_of(SURE, "cpu"), "250 ms to 350 ms"),
        (bounds_of(SURE, "calls"), ""),
        (count_of(1, "test"), "1 test"),
        (change_words("share", 0.1, 0.2, 0.05, 0.15), "10.0% 20.0% +10.0 pp +5.0 to +15.0 pp"),
        (change_words("calls", 0.0, 2.0, 1.0, 3.0), "0 2 new "),
        (change_words("calls", 1.0, 2.0, 1.0, 1.0), "1 2 +100.00% "),
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


SAMPLED = sampled({(TRANSITION,): 0.6, (WRITE,): 0.4})


def test_tests_together_weigh_by_their_samples() -> None:
    one = sampled({(TRANSITION,): 1.0}, samples=300)
    other = sampled({(WRITE,): 1.0}, samples=100)
    shares = SharesOfRun()
    assert (shares.owners(), shares.functions()) == ([], [])
    for backend in (one, other):
        assert backend.shares
        shares.add(backend.shares)
    rows = [(row.owner, row.share.value) for row in shares.owners()]
    assert rows == [("transitions", 0.75), ("comm", 0.25)]
    functions = [(row.function, row.share.value) for row in shares.functions()]
    assert functions == [(TRANSITION, 0.75), (WRITE, 0.25)]


def facts(name: str, rank: int) -> BackendFacts:
    return BackendFacts(name, rank, (), frozenset(), True, False, ())


def test_samples_of_the_most_recommended_backend_are_shown() -> None:
    first, second = replace(SAMPLED, backend="one"), replace(SAMPLED, backend="two")
    result = measured(counted({TRANSITION: 1.0}), first, second)
    assert sampling(result, {"one": facts("one", 2), "two": facts("two", 1)}) is second
    assert sampling(result, {}) is first
    assert sampling(measured(counted({TRANSITION: 1.0})), {}) is None


def change(outcome: Outcome, metric: str = "calls", note: str = "") -> Change:
    return Change(metric, TRANSITION, "transitions", outcome, 2.0, 3.0, 0.5, 1.5, note)


def comparison(*changes: Change, **facts: Any) -> Comparison:
    return replace(Comparison("test_a", "pyspy", "gil", changes, same=7), **facts)


def test_the_gravest_change_comes_first() -> None:
    better = comparison(change(Outcome.IMPROVED))
    worse = comparison(change(Outcome.REGRESSED), test_id="test_b")
    order = gravest(iter([better, worse]), 5)
    assert [test for test, _ in order] == ["test_b", "test_a"]
    assert len(gravest([better, worse], 1)) == 1


def test_a_sentence_says_what_regressed_or_is_open() -> None:
    twice = comparison(change(Outcome.REGRESSED), change(Outcome.REGRESSED))
    sentence = f"calls of {TRANSITION}: 2 before, 3 now per task (+50.00%)"
    assert regressions(twice) == f"{sentence}; 2 figures"
    doubt = comparison(change(Outcome.UNDECIDED, note="run more"), reasons=("other workers",))
    assert undecided(doubt) == f"other workers; {sentence}: run more"
    assert (regressions(comparison()), undecided(comparison())) == ("", "")


def test_tests_that_failed_under_a_seed_stand_first() -> None:
    results = [
        measured(
            test_id=f"{test}[seed{seed}]",
            outcome="failed" if (test, seed) == ("b", 1) else "passed",
        )
        for test in "ab"
        for seed in range(2)
    ]
    first, *_ = summary_lines(results, "", verbosity=0)
    assert first.text == "b[seed*]  2 seeds: 1 passed, 1 failed (seed1)"


def test_tests_of_one_side_are_named() -> None:
    report = Report("a", "b", (), ("n",), ("v",), (("o", "p"),), ("u",))
    assert list(unmatched_tests(report)) == [
        "renamed: o is now p",
        "not in the baseline: n",
        "vanished: v",
        "failed, and not compared: u",
    ]


def limit(text: str, *findings: Finding, note: str = "") -> LimitResult:
    verdict = Verdict.worst([finding.verdict for finding in findings])
    return LimitResult(text, verdict, findings, parse_limit(text), note)


def finding(
    verdict: Verdict, value: float = 0.4, subject: str = TRANSITION, before: float | None = None
) -> Finding:
    earlier = None if before is None else Estimate(before, before, before, 9, 1.0)
    return Finding(subject, Estimate(value, value / 2, value * 2, 900, 1.0), verdict, earlier)


def test_a_limit_names_its_baseline_and_how_many_more_functions_broke_it() -> None:
    text = "share(a:*) <= baseline + 2pp"
    both = [finding(Verdict.FAIL, before=0.25), finding(Verdict.FAIL), finding(Verdict.PASS)]
    assert "(before: 25.0%)" in describe(limit(text, *both))
    assert describe(limit(text, *both)).endswith(", and 1 more function")
    assert "more" not in describe(limit(text, *[finding(Verdict.PASS)] * 3))
    of_peak = describe(limit("peak <= 1MB", finding(Verdict.PASS, 2e6, "")))
    assert of_peak.endswith("peak of the scheduler is 2 MB (at least 1 MB, at most 4 MB)")
    parsed = parse_limit("share(a:*) <= 30%")
    assert grounds_of(both[1], parsed, 2) == "900 busy samples; 2 more functions"


def test_a_relative_limit_is_drawn_where_its_baseline_puts_it() -> None:
    cheaper = finding(Verdict.PASS, 0.1, before=0.4)
    parsed = parse_limit("cpu <= baseline * 1.5")
    strip = strip_of(cheaper, parsed)
    assert strip.limit is not None
    assert strip.before is not None
    assert strip.limit / strip.before == pytest.approx(1.5)
    assert grounds_of(cheaper, parsed) == "900 tasks; before: 400 ms"


def test_skipped_limits_are_counted() -> None:
    results = [measured(SAMPLED, unjudged=("peak <= 1MB",)), measured(SAMPLED)]
    assert skipped_words([*results, results[0]]).startswith("2 skipped (need a backend")
    assert (limit_words([]), skipped_words([])) == ([], "")


COUNTED = counted({TRANSITION: 7.0})


@pytest.mark.parametrize(("seconds", "part"), [(0.0, ""), (300e-6, ""), (500e-6, "40%")])
def test_time_without_a_processor_is_a_note(seconds: float, part: str) -> None:
    backend = sampled({(TRANSITION,): 1.0})  # 5,000 samples, and 1.5 s of CPU time
    assert backend.shares is not None
    backend = replace(backend, shares=replace(backend.shares, sample_seconds=seconds))
    assert (f"in {part} of its busy time" if part else "") in waited_words(backend)
    assert bool(waited_words(backend)) is bool(part)
    assert notes_of(backend) == tuple(filter(None, [waited_words(backend)]))


def test_facts_of_several_tests_have_one_line() -> None:
    others = replace(ENVIRONMENT, versions={"dask": "2"}, test_versions={"dask": "1"})
    results = [measured(COUNTED, environment=others, baseline="main")] * 2
    differences = environment_notes([*results, measured(COUNTED)])
    assert differences == ["dask is 1 where the tests run and 2 where the scheduler does"]
    assert baseline_names([*results, measured(COUNTED)]) == ["main"]


def test_a_run_has_its_commit_and_what_its_tests_share() -> None:
    commit = Commit("0123456789abcdef", "main", "2026-01-01", is_dirty=True)
    run = Run("run-1", "2026-01-01T00:00:00+00:00", 1, (), commit)
    facts = dict(facts_of_run(run, [measured(COUNTED), measured(COUNTED)]))
    assert facts["commit"] == "0123456789ab on main, with changes that are not committed"
    assert facts["pytest"] == "ended with exit status 1"
    assert facts["cluster"] == "simulated, 16 workers, 16 threads"
    assert facts["machine"] == "a processor x 2"
    plain = Run("run-1", "2026-01-01T00:00:00+00:00", 0)
    assert [fact.label for fact in facts_of_run(plain, [])] == ["started"]


def test_notes_of_evidence_come_once() -> None:
    tasks = Evidence("tasks", artifacts=("tasks.json", "tasks.html"), notes=("slow",))
    missing = [
        Evidence(kind, (), notes=("slow",), missing="no Bokeh") for kind in ("memory", "report")
    ]
    assert list(evidence_notes([tasks, *missing])) == ["no memory, report: no Bokeh", "slow"]


SETTING = Setting("test_a", "pyspy", "gil", "3.11", "local", 4, (10, 20), "a processor x 2")
DIRTY = Commit("0123456789abcdef", "", "2026-02-01T00:00:00", is_dirty=True)


def series(
    *values: float,
    steps: tuple[Step, ...] = (),
    subject: str = "",
    commit: Commit | None = None,
    upgraded: int = 99,
) -> Series:
    """Figures of one run after the other; distributed is upgraded before one of them."""
    figures = tuple(
        Point(
            Moment(
                f"run-{number}",
                f"2026-01-{number + 1:02}T00:00:00",
                commit,
                "2" if number >= upgraded else "1",
            ),
            value,
        )
        for number, value in enumerate(values)
    )
    return Series(SETTING, "calls", subject, figures, steps)


STEP = (Step(2, 10.0, 20.0, 0.01),)
STEPPED = series(10, 10, 20, 20, steps=STEP)


def test_a_setting_leaves_out_what_is_unknown() -> None:
    assert setting_words(SETTING) == (
        "pyspy (gil), Python 3.11, local cluster of 4, scales 10, 20, on a processor x 2"
    )
    assert setting_words(Setting("t", "counts", "", "", "", 0, (), "")) == "counts"
    assert series_name(series(1, subject="@gc")) == "calls(@gc)"
    assert ends_of(STEPPED) == ("10", "20", "+100.0%")


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        (STEPPED, "step at run run-2 (2026-01-03), after run run-1: 10 -> 20, +100.0%"),
        (
            series(10, 10, 20, 20, steps=STEP, commit=DIRTY, upgraded=2),
            "step at 012345678+ (2026-02-01), between two runs of that commit: "
            "10 -> 20, +100.0%; distributed 1 -> 2",
        ),
    ],
)
def test_a_change_has_a_note_with_its_commits_and_versions(changed: Series, note: str) -> None:
    assert list(notes_of_series(changed)) == [note]


def test_rows_are_of_the_whole_and_of_what_changed() -> None:
    still = series(1, 1, subject="@gc")
    moved = series(10, 10, 20, 20, steps=STEP, subject="@comm")
    assert [row.subject for row in shown_series([series(1, 1), still, moved])] == ["", "@comm"]
    late = series(1, 1, 1, 2, steps=(Step(3, 1.0, 2.0, 0.01),), subject="@late")
    assert changed_series([still, moved, late], 5) == [late, moved]
    assert changed_series([still, moved, late], 1) == [late]
    other, third = replace(SETTING, backend="counts"), replace(SETTING, test_id="test_b")
    rows = [replace(STEPPED, setting=setting) for setting in (SETTING, other, third)]
    grouped = [(test, [setting for setting, _ in part]) for test, part in series_by_test(rows)]
    assert grouped == [("test_a", [SETTING, other]), ("test_b", [third])]


def test_a_history_ends_with_its_commits_and_counts() -> None:
    assert list(history_words(History(4, (STEPPED, series(1, subject="@gc")), ()))) == [
        "commits with steps:",
        "  run run-2 (2026-01-03): 1 up, 0 down, in 1 test",
        "2 series with fewer than 6 figures, too few to find steps",
        "4 runs, 2 series: 1 step",
    ]
    for count, runs in enumerate(["0 runs", "1 run", "2 runs"]):
        *_, last = history_words(History(count, (), ()))
        assert last == f"{runs}, 0 series: 0 steps"


def estimate(value: float) -> Estimate:
    return Estimate(value, max(0.0, value - 0.02), min(1.0, value + 0.02), 900, 1.0)


SHARES = SampledShares(
    busy_samples=900,
    idle_samples=100,
    empty_samples=0,
    inference="blocks",
    functions=tuple(
        FunctionShare(
            f"distributed.scheduler:f{n:02}", "transitions", estimate(0.8 - n / 100), estimate(0)
        )
        for n in range(40)
    ),
    owners=tuple(OwnerShare(f"owner-{n}", estimate((40 - n) / 100)) for n in range(8)),
)
BROKEN, DOUBTFUL, HELD = limited(
    Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS, text="share(a:b) <= 30%"
).limits


def result(*, cpu: float = 0.5, **facts: Any) -> Result:
    """A result with forty functions."""
    window = Window(1, (Segment(1.25, cpu, 3000, 6000),))
    backend = replace(SAMPLED, backend="pyspy", mode="gil", window=window, shares=SHARES)
    return measured(replace(backend, **facts))


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


def shown(rows: list[str]) -> list[str]:
    """Functions of the table, in its order."""
    return [text.split()[-1].partition(":")[2] for text in rows if "distributed.scheduler:" in text]


def suite(tests: int, **facts: Any) -> list[Result]:
    """Tests with names of their own; each needs a second more of the scheduler's CPU."""
    return [
        replace(result(cpu=number, **facts), test_id=f"t.py::test_{number}")
        for number in range(tests)
    ]


def titles(texts: list[str]) -> list[str]:
    """The tests that have a title."""
    return [text.split()[0] for text in texts if text.startswith("t.py::")]


def rows(texts: list[str]) -> list[str]:
    """The tests that have a line alone."""
    return [text.split()[-1] for text in texts if text.startswith(" ") and "t.py::" in text]


def test_functions_become_fewer_with_the_number_of_tests() -> None:
    """Whole suites are marked, and some have -v in their settings."""
    names = [f"f{n:02}" for n in range(HOT_FUNCTIONS_VERBOSE)]
    assert shown(texts(*suite(FEW_TESTS))) == names[:HOT_FUNCTIONS] * FEW_TESTS
    more = suite(FEW_TESTS + 1)
    assert texts(*more)[:3] == [
        "    CPU/task  test",
        "              t.py::test_0",
        "      333 us  t.py::test_1",
    ]
    assert len(rows(texts(*more))) == len(more)
    failed = texts(*more, replace(more[0], outcome="failed"))
    assert shown(failed) == ["f00"]
    assert failed[1].startswith("  pyspy (gil): 900 busy samples, 3000 tasks in 1.25 s")
    assert "    80.0% (78.0% - 82.0%) in distributed.scheduler:f00" in failed
    assert shown(texts(*suite(MANY_TESTS), verbosity=1)) == names * MANY_TESTS
    many = suite(MANY_TESTS + 1)
    verbose = texts(*many, verbosity=1)
    assert shown(verbose) == []
    assert len(verbose) == 1 + len(many) + 1
    assert shown(texts(*many, verbosity=2)) == names * len(many)


def test_sixteen_tests_that_pass_take_few_lines_and_v_shows_all() -> None:
    tests = suite(16, limits=(HELD,))
    brief = texts(*tests)
    assert len(brief) <= 11  # the place of the page is one more
    assert rows(brief) == [f"t.py::test_{number}" for number in range(9, 16)]
    assert "9 more tests: -v shows all" in brief
    assert len(titles(texts(*tests, verbosity=1))) == 16
    tests[0] = suite(1, warnings=("torn",))[0]
    assert "9 more tests, 1 with warnings: -v shows all" in texts(*tests)


def test_tests_with_news_come_before_hotter_ones() -> None:
    tests = suite(100)
    tests[1] = replace(tests[1], outcome="failed")
    tests[3] = suite(4, limits=(BROKEN,))[3]
    tests[5] = suite(6, limits=(DOUBTFUL,))[5]
    tests[7] = replace(tests[7], baseline="main", comparisons=(compared(1, "t.py::test_7"),))
    assert titles(texts(*tests))[:4] == [f"t.py::test_{number}" for number in (1, 3, 5, 7)]
    assert rows(texts(*tests))[:3] == ["t.py::test_97", "t.py::test_98", "t.py::test_99"]


def test_two_hundred_tests_with_news_fit_on_a_few_screens() -> None:
    """They have one cause, and the page of the run shows them all."""
    tests = [
        replace(test, baseline="main", comparisons=(compared(30, test.test_id),))
        for test in suite(200, limits=(BROKEN,))
    ]
    brief = texts(*tests)
    assert len(titles(brief)) == WITH_NEWS + TESTS_IN_BRIEF
    assert "  and 180 more: -v shows all" in brief
    assert brief.count("  and 20 more changes: -v shows all") == TESTS_IN_BRIEF
    assert brief.count("195 more comparisons: -v shows all") == 1
    assert len(brief) <= 220
    everything = texts(*tests, verbosity=1)
    assert len(titles(everything)) == 400
    assert not any("shows all" in text for text in everything)


def test_costs_without_tasks_have_no_line_of_the_whole() -> None:
    costs = MeasuredCosts((), {"transitions": 3.0, "messages_in": 2.0})
    assert list(cost_lines(costs, 0, 5)) == []
    assert [line.text for line in cost_lines(costs, 2, 5)] == [
        "  whole scheduler: transitions 1.5/task, messages_in 1/task"
    ]


def test_tests_without_a_scheduler_are_counted_and_under_v_listed() -> None:
    one, *rest = [line.text for line in unprofiled_lines({"a::b": ""}, 0)]
    assert one.startswith(
        "not profiled: 1 test ran no scheduler in the test's process, and no marker"
    )
    assert rest == []
    two, *rest = [line.text for line in unprofiled_lines({"a::b": "", "a::c": ""}, 1)]
    assert two.startswith("not profiled: 2 tests ran no scheduler")
    assert rest == ["  a::b", "  a::c"]


def test_q_says_one_line_and_what_is_broken() -> None:
    last = Line("artifacts of 2 profiled tests: .schedprof/run-1")
    assert lines(result(), result(), verbosity=-1) == [last]
    quiet = lines(result(limits=(BROKEN, DOUBTFUL, HELD)), result(), verbosity=-1)
    broken = f"  broken: {describe(BROKEN)} [{TEST}]"
    assert quiet[1:] == [Line(broken, {"red": True}), last]


def test_a_test_without_any_profile_has_its_title() -> None:
    end = "artifacts of 1 profiled test: .schedprof/run-1"
    assert texts(replace(result(), backends=())) == [f"{TEST}  passed", end]
