"""Tests of judging shares against limits: three verdicts, each with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from measured import recorded

from pytest_schedprof.errors import LimitError
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.judge.shares import Shares, shares_of
from pytest_schedprof.judge.verdicts import judge
from pytest_schedprof.model.limit import MIN_SAMPLES, LimitResult, Verdict
from pytest_schedprof.model.profile import Stack
from pytest_schedprof.report.tables import describe

ROOT = "distributed.core:Server._handle_comm"
FIRST = "distributed.scheduler:Scheduler.first"
SECOND = "distributed.scheduler:Scheduler.second"
THIRD = "distributed.scheduler:Scheduler.third"
SEND = "distributed.batched:BatchedSend.send"
IDLE = "selectors:EpollSelector.select"


def measured(counts: dict[Stack, int]) -> Shares:
    """Shares of the given number of samples of each stack, in random order."""
    samples = [stack for stack, count in counts.items() for _ in range(count)]
    Random(5).shuffle(samples)
    return in_order(samples)


def in_order(samples: Sequence[Stack]) -> Shares:
    """Shares of one window with these samples, in this order."""
    return shares_of([[recorded(samples)]], drift=0.0)


def verdict_on(text: str, shares: Shares, *known: str) -> LimitResult:
    return judge(parse_limit(text), shares, known)


HALF = measured({(ROOT, FIRST): 1000, (ROOT, SECOND): 600, (ROOT, FIRST, SEND): 400})
"""FIRST has 70 % (self 50 %), SECOND 30 %, SEND 20 %, ROOT 100 % (self 0 %)."""


@pytest.mark.parametrize(
    ("bound", "verdict"),
    [
        ("100%", Verdict.PASS),
        ("75%", Verdict.PASS),
        ("70%", Verdict.INCONCLUSIVE),
        ("69%", Verdict.INCONCLUSIVE),
        ("60%", Verdict.FAIL),
        ("0%", Verdict.FAIL),
    ],
)
def test_a_limit_passes_and_fails_only_where_the_data_rules_out_the_contrary(
    bound: str, verdict: Verdict
) -> None:
    result = verdict_on(f"share({FIRST}) <= {bound}", HALF, FIRST)
    assert result.verdict is verdict
    (finding,) = result.findings
    assert finding.subject == FIRST
    assert finding.verdict is verdict
    assert finding.estimate == HALF.of_function(FIRST)
    assert finding.estimate.value == pytest.approx(0.7)
    assert result.limit == f"share({FIRST}) <= {bound}"
    assert result.note == ""


def test_self_is_the_time_of_the_function_without_what_it_calls() -> None:
    (finding,) = verdict_on(f"self({FIRST}) <= 60%", HALF).findings
    assert finding.estimate.value == pytest.approx(0.5)
    assert finding.verdict is Verdict.PASS
    assert verdict_on(f"share({FIRST}) <= 60%", HALF).verdict is Verdict.FAIL
    assert verdict_on(f"self({ROOT}) <= 5%", HALF).verdict is Verdict.PASS


def test_with_too_few_busy_samples_there_is_no_verdict_whatever_the_share() -> None:
    fewer = measured({(ROOT, FIRST): 42, (ROOT, SECOND): 18})
    assert fewer.of_function(FIRST).value == HALF.of_function(FIRST).value
    assert verdict_on(f"share({FIRST}) <= 62%", HALF).verdict is Verdict.FAIL
    assert verdict_on(f"share({FIRST}) <= 62%", fewer).verdict is Verdict.INCONCLUSIVE
    few = measured({(ROOT, FIRST): MIN_SAMPLES - 1, (IDLE,): 5000})
    for bound in ("0%", "100%"):
        result = verdict_on(f"share({FIRST}) <= {bound}", few, FIRST)
        assert result.verdict is Verdict.INCONCLUSIVE
        assert result.findings == ()
        why = f"{MIN_SAMPLES - 1} busy samples, at least {MIN_SAMPLES} are"
        assert describe(result).startswith(f"share({FIRST}) <= {bound}: {why}")
    enough = measured({(ROOT, FIRST): MIN_SAMPLES})
    assert verdict_on(f"share({FIRST}) <= 100%", enough).verdict is Verdict.PASS


def test_findings_are_sorted_by_verdict_then_by_share() -> None:
    (finding,) = verdict_on("share(distributed.scheduler:Scheduler.secon?) <= 90%", HALF).findings
    assert finding.subject == SECOND
    result = verdict_on("share(*:*) <= 30%", HALF)
    assert result.verdict is Verdict.FAIL
    assert [finding.subject for finding in result.findings] == [ROOT, FIRST, SECOND, SEND]
    assert [finding.verdict for finding in result.findings] == [
        Verdict.FAIL,
        Verdict.FAIL,
        Verdict.INCONCLUSIVE,
        Verdict.PASS,
    ]


def test_a_proven_failure_comes_before_a_greater_share_that_is_in_doubt() -> None:
    steady, by_fits = (FIRST,), (SECOND,)
    without = [steady] * 30 + [(SEND,)] * 70
    shares = in_order((without + [steady] * 30 + [by_fits] * 70) * 10)
    assert shares.of_function(SECOND).value > shares.of_function(FIRST).value
    findings = verdict_on("share(distributed.scheduler:*) <= 25%", shares).findings
    assert [finding.subject for finding in findings] == [FIRST, SECOND]
    assert [finding.verdict for finding in findings] == [Verdict.FAIL, Verdict.INCONCLUSIVE]


@pytest.mark.parametrize("pattern", ["distributed.scheduler:no_such", "nowhere.*:*"])
@pytest.mark.parametrize("shares", [HALF, measured({(ROOT,): 3})])
def test_a_pattern_that_names_nothing_is_an_error_never_a_silent_pass(
    pattern: str, shares: Shares
) -> None:
    with pytest.raises(LimitError) as caught:
        verdict_on(f"share({pattern}) <= 100%", shares)
    assert f"{pattern!r} names nothing in the scheduler's code" in str(caught.value)


def test_only_busy_samples_of_the_scheduler_make_a_function_seen() -> None:
    shares = measured({(ROOT,): 500, ("distributed.worker:Worker.execute", SEND): 500})
    with pytest.raises(LimitError, match="names nothing"):
        verdict_on(f"share({SEND}) <= 30%", shares)
    (finding,) = verdict_on(f"share({SEND}) <= 30%", shares, SEND).findings
    assert finding.estimate.value == 0


@pytest.mark.parametrize("metric", ["share", "self"])
def test_a_function_that_exists_but_was_not_seen_has_share_0(metric: str) -> None:
    result = verdict_on(f"{metric}({THIRD}) <= 5%", HALF, THIRD)
    (finding,) = result.findings
    assert (finding.subject, finding.estimate.value) == (THIRD, 0.0)
    assert finding.estimate.samples == 2000
    assert result.verdict is Verdict.PASS
    assert verdict_on(f"{metric}({THIRD}) <= 0%", HALF, THIRD).verdict is Verdict.INCONCLUSIVE
    stealing = verdict_on(f"{metric}(distributed.stealing:*) <= 5%", HALF, "distributed.stealing:a")
    assert stealing.verdict is Verdict.PASS
    assert [finding.estimate.value for finding in stealing.findings] == [0.0]


def test_an_owner_is_held_to_the_sum_of_its_samples_and_a_wildcard_to_each_function() -> None:
    shares = measured({(FIRST,): 250, (SECOND,): 250, (THIRD,): 250, (SEND,): 250})
    result = verdict_on("share(@transitions) <= 35%", shares)
    (finding,) = result.findings
    assert finding.subject == "@transitions"
    assert finding.estimate.value == pytest.approx(0.75)
    assert result.verdict is Verdict.FAIL
    assert verdict_on("share(@comm) <= 35%", shares).verdict is Verdict.PASS
    each_alone = verdict_on("share(distributed.scheduler:Scheduler.*) <= 35%", shares)
    assert {finding.subject for finding in each_alone.findings} == {FIRST, SECOND, THIRD}
    assert each_alone.verdict is Verdict.PASS
    (finding,) = verdict_on("share(@stealing) <= 5%", shares).findings
    assert (finding.estimate.value, finding.verdict) == (0, Verdict.PASS)


def test_the_verdict_of_several_is_the_worst() -> None:
    every = [Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL]
    assert Verdict.worst(every) is Verdict.FAIL
    assert Verdict.worst(every[:2]) is Verdict.INCONCLUSIVE
    assert Verdict.worst(every[:1]) is Verdict.PASS
    assert Verdict.worst([]) is Verdict.PASS


def test_the_line_of_a_limit_holds_limit_function_value_bounds_and_samples() -> None:
    result = verdict_on(f"share({FIRST}) <= 60%", HALF)
    share = HALF.of_function(FIRST)
    assert describe(result) == (
        f"share({FIRST}) <= 60%: {FIRST} holds 70.0% "
        f"(at least {share.low:.1%}, at most {share.high:.1%}) of 2000 busy samples"
    )


def test_the_line_of_a_wildcard_names_the_worst_and_counts_those_that_share_its_fate() -> None:
    line = describe(verdict_on("share(*:*) <= 10%", HALF))
    assert line.startswith(f"share(*:*) <= 10%: {ROOT} holds 100.0% ")
    assert line.endswith(", and 3 more functions")
    # Only two of the four functions that were seen break this limit.
    assert describe(verdict_on("share(*:*) <= 50%", HALF)).count(" and 1 more function") == 1
    assert "more function" not in describe(verdict_on("share(*:*) <= 80%", HALF))
    assert "more function" not in describe(verdict_on("share(*:*) <= 100%", HALF))


def test_samples_that_are_in_doubt_judge_nothing() -> None:
    late = recorded([(ROOT, FIRST)] * 100, doubt="too late")
    for rounds in ([[late]], [[late]] * 5):
        result = verdict_on(f"share({FIRST}) <= 1%", shares_of(rounds, drift=0.0))
        assert (result.verdict, result.note) == (Verdict.INCONCLUSIVE, "too late")
