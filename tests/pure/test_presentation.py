"""Rows, words, headlines, facts and series, in amounts and cases that no session of goldens has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from measured import ENVIRONMENT, TRANSITION, counted, measured, sampled

from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.model.backend import BackendFacts
from pytest_schedprof.model.comparison import Change, Comparison, Outcome, Report
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.limit import Estimate, Finding, LimitResult, Verdict
from pytest_schedprof.model.run import (
    Commit,
    Course,
    History,
    Moment,
    Point,
    Run,
    Series,
    Setting,
    Step,
    Trend,
)
from pytest_schedprof.report.changes import (
    change_cells,
    gravest,
    regressions,
    undecided,
    unmatched_tests,
)
from pytest_schedprof.report.results import (
    baseline_names,
    environment_notes,
    evidence_notes,
    facts_of_run,
    facts_of_settings,
    facts_of_test,
    notes_of,
    waited_words,
)
from pytest_schedprof.report.tables import (
    describe,
    functions_of_run,
    grounds_of,
    limit_words,
    owners_of_run,
    sampling,
    skipped_words,
    strip_of,
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
        (count_of(2, "series", "series"), "2 series"),
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


def test_a_limit_names_its_baseline_and_how_many_more_functions_broke_it() -> None:
    text = "share(a:*) <= baseline + 2pp"
    both = [finding(Verdict.FAIL, before=0.25), finding(Verdict.FAIL), finding(Verdict.PASS)]
    assert "(before: 25.0%)" in describe(limit(text, *both))
    assert describe(limit(text, *both)).endswith(", and 1 more function")
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
    assert waited_words(backend).startswith(f"for {part} of the time" if part else "")
    assert bool(waited_words(backend)) is bool(part)
    assert notes_of(backend) == tuple(filter(None, [waited_words(backend)]))


OTHERS = replace(ENVIRONMENT, versions={"dask": "2"}, test_versions={"dask": "1"})


def test_facts_of_several_tests_have_one_line() -> None:
    results = [measured(COUNTED, environment=OTHERS, baseline="main")] * 2
    differences = environment_notes([*results, measured(COUNTED, environment=None)])
    assert differences == ["dask is 1 where the tests run and 2 where the scheduler does"]
    assert baseline_names([*results, measured(COUNTED)]) == ["main"]
    compiled = tuple(f"distributed.{name}" for name in ("a", "b", "c", "d", "e"))
    result = measured(COUNTED, environment=replace(ENVIRONMENT, compiled=compiled))
    (note,) = environment_notes([result, result])
    first = "distributed.a, distributed.b, distributed.c and 2 more;"
    assert note.startswith(f"compiled in the scheduler: {first}")
    assert ("compiled", ", ".join(compiled)) in list(facts_of_settings(result))


def test_a_run_has_its_commit_and_what_its_tests_share() -> None:
    commit = Commit("0123456789abcdef", "main", "2026-01-01", is_dirty=True)
    run = Run("run-1", "2026-01-01T00:00:00+00:00", 1, (), commit)
    facts = dict(facts_of_run(run, [measured(COUNTED), measured(COUNTED)]))
    assert facts["commit"] == "0123456789ab on main, with changes that are not committed"
    assert facts["pytest"] == "ended with exit status 1"
    assert facts["cluster"] == "simulated, 16 workers"
    assert facts["machine"] == "a processor x 2"
    plain = Run("run-1", "2026-01-01T00:00:00+00:00", 0)
    bare = measured(COUNTED, environment=None, cluster=None)
    for started in (facts_of_run(plain, []), facts_of_test(bare)):
        assert [fact.label for fact in started] == ["started"]


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
    trends: tuple[Trend, ...] = (),
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
    return Series(SETTING, "calls", subject, figures, Course(steps, trends))


STEP = (Step(2, 10.0, 20.0, 0.01),)
STEPPED = series(10, 10, 20, 20, steps=STEP)
RISING = series(10, 15, 20, trends=(Trend(0, 2, 10.0, 20.0),))


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
        (
            RISING,
            "trend from run run-0 (2026-01-01) to run run-2 (2026-01-03): 10 -> 20, +100.0%",
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
        "4 runs, 2 series: 1 step, 0 trends",
    ]
    for count, runs in enumerate(["0 runs", "1 run", "2 runs"]):
        *_, last = history_words(History(count, (), ()))
        assert last == f"{runs}, 0 series: 0 steps, 0 trends"
