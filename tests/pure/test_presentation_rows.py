"""Rows of functions, owners, costs, changes and limits, and the words beside them.

The goldens show them as readers see them; here are the amounts and cases that no session has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from measured import TRANSITION, counted, measured, sampled

from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.model.backend import BackendFacts
from pytest_schedprof.model.comparison import Change, Comparison, Outcome, Report
from pytest_schedprof.model.limit import Estimate, Finding, LimitResult, Verdict
from pytest_schedprof.report.changes import (
    change_cells,
    gravest,
    regressions,
    undecided,
    unmatched_tests,
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
