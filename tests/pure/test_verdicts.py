"""Tests of judging limits: three verdicts, each with its evidence, also relative to a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import ENVIRONMENT, SCHEDULER, TASKS, counted, counted_in, measured, recorded, sampled
from msgspec.structs import replace

from pytest_schedprof.errors import LimitError
from pytest_schedprof.evidence.memory import MemoryOptions, measures_of
from pytest_schedprof.judge.costs import Costs, unit_of
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.judge.limits import merge_limits, parse_limit
from pytest_schedprof.judge.reference import InTurns, Reference
from pytest_schedprof.judge.shares import Shares, shares_of
from pytest_schedprof.judge.verdicts import excess, judge
from pytest_schedprof.measuring.assessment import Earlier
from pytest_schedprof.measuring.judging import judge_evidence
from pytest_schedprof.model.evidence import Evidence, RunAmounts
from pytest_schedprof.model.limit import MIN_SAMPLES, Estimate, LimitResult, Verdict
from pytest_schedprof.model.metric import MEASURES, SAMPLED
from pytest_schedprof.model.profile import CostProfile, Stack
from pytest_schedprof.model.result import OWN_VIRTUAL, BackendResult, ClusterFacts, Result
from pytest_schedprof.report.tables import describe, grounds_of, limits_of

ROOT = "distributed.core:Server._handle_comm"
FIRST = "distributed.scheduler:Scheduler.first"
SECOND = "distributed.scheduler:Scheduler.second"
THIRD = "distributed.scheduler:Scheduler.third"
SEND = "distributed.batched:BatchedSend.send"


def shares_in(counts: dict[Stack, int]) -> Shares:
    """Shares of the given number of samples of each stack, in random order."""
    samples = [stack for stack, count in counts.items() for _ in range(count)]
    Random(5).shuffle(samples)
    return in_order(samples)


def in_order(samples: Sequence[Stack]) -> Shares:
    """Shares of one window with these samples, in this order."""
    return shares_of([[recorded(samples)]], drift=0.0)


def verdict_on(text: str, shares: Shares, *known: str) -> LimitResult:
    return judge(parse_limit(text), shares, known)


HALF = shares_in({(ROOT, FIRST): 1000, (ROOT, SECOND): 600, (ROOT, FIRST, SEND): 400})
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
    fewer = shares_in({(ROOT, FIRST): 42, (ROOT, SECOND): 18})
    assert fewer.of_function(FIRST).value == HALF.of_function(FIRST).value
    assert verdict_on(f"share({FIRST}) <= 62%", HALF).verdict is Verdict.FAIL
    assert verdict_on(f"share({FIRST}) <= 62%", fewer).verdict is Verdict.INCONCLUSIVE
    few = shares_in({(ROOT, FIRST): MIN_SAMPLES - 1, ("selectors:EpollSelector.select",): 5000})
    for bound in ("0%", "100%"):
        result = verdict_on(f"share({FIRST}) <= {bound}", few, FIRST)
        assert result.verdict is Verdict.INCONCLUSIVE
        assert result.findings == ()
        why = f"{MIN_SAMPLES - 1} busy samples, at least {MIN_SAMPLES} are"
        assert describe(result).startswith(f"share({FIRST}) <= {bound}: {why}")
    enough = shares_in({(ROOT, FIRST): MIN_SAMPLES})
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
@pytest.mark.parametrize("shares", [HALF, shares_in({(ROOT,): 3})])
def test_a_pattern_that_names_nothing_is_an_error_never_a_silent_pass(
    pattern: str, shares: Shares
) -> None:
    with pytest.raises(LimitError) as caught:
        verdict_on(f"share({pattern}) <= 100%", shares)
    assert f"{pattern!r} names nothing in the scheduler's code" in str(caught.value)


def test_only_busy_samples_of_the_scheduler_make_a_function_seen() -> None:
    shares = shares_in({(ROOT,): 500, ("distributed.worker:Worker.execute", SEND): 500})
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
    shares = shares_in({(FIRST,): 250, (SECOND,): 250, (THIRD,): 250, (SEND,): 250})
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


def test_samples_that_are_in_doubt_judge_nothing() -> None:
    late = recorded([(ROOT, FIRST)] * 100, doubt="too late")
    for rounds in ([[late]], [[late]] * 5):
        result = verdict_on(f"share({FIRST}) <= 1%", shares_of(rounds, drift=0.0))
        assert (result.verdict, result.note) == (Verdict.INCONCLUSIVE, "too late")


FUNCTION = f"{SCHEDULER}._transition"


@pytest.mark.parametrize(
    ("text", "factor", "bound", "unit"),
    [
        ("calls(distributed.scheduler:*) <= baseline * 1.01", 1.01, 0, ""),
        ("share(@comm) <= baseline + 2pp", 1, 0.02, "pp"),
        ("cpu <= baseline * 1.1", 1.1, 0, "s"),
        ("cpu <= baseline + 5us", 1, 5e-6, "us"),
        ("bytecodes <= baseline", 1, 0, ""),
        ("peak <= baseline * 1.2 + 1MB", 1.2, 1e6, "MB"),
    ],
)
def test_a_bound_may_be_the_baseline_times_or_plus_something(
    text: str, factor: float, bound: float, unit: str
) -> None:
    limit = parse_limit(text)
    assert (limit.factor, limit.unit) == (factor, unit)
    assert limit.bound == pytest.approx(bound)
    assert limit.is_relative
    assert str(limit) == text


def test_a_relative_limit_stands_beside_an_absolute_one_of_the_same_function() -> None:
    texts = ("cpu <= 300us", "cpu <= baseline * 1.1", "cpu <= baseline * 1.2")
    merged = merge_limits([[parse_limit(text)] for text in texts])
    assert [str(limit) for limit in merged] == ["cpu <= 300us", "cpu <= baseline * 1.2"]


BOUNDS = st.tuples(*[st.floats(0, 1)] * 3).map(sorted)


@given(BOUNDS, BOUNDS, st.floats(0.5, 2))
def test_the_excess_is_less_sure_than_either_side(
    after: list[float], before: list[float], factor: float
) -> None:
    one, other = (Estimate(v, low, high, 100, 1.0) for low, v, high in (after, before))
    low, high = excess(one, other, factor)
    value = one.value - factor * other.value
    assert low <= value + 1e-9 <= high + 2e-9
    assert high - low >= max(one.high - one.low, factor * (other.high - other.low)) / 2**0.5 - 1e-9


def doubt(
    side: Reference | InTurns, after: BackendResult, metric: str = "calls", **facts: Any
) -> str:
    return side.before(Measurement(measured(after, **facts), after)).doubt(metric)


def test_what_the_baseline_cannot_tell_is_a_doubt_with_its_reason() -> None:
    counts, times = counted({FUNCTION: 10.0}), sampled({(FUNCTION,): 1.0})
    of_counts, of_times = (Reference("main", [measured(side)]) for side in (counts, times))
    elsewhere = replace(ENVIRONMENT, scheduler_machine="another x 8")
    assert doubt(of_counts, counts) == ""
    assert doubt(of_times, times, "share") == ""
    assert doubt(of_counts, counts, environment=elsewhere) == ""
    assert "another machine" in doubt(of_times, times, "share", environment=elsewhere)
    assert "does not contain this test" in doubt(of_counts, counts, test_id="new")
    assert "nothing of counts" in doubt(of_times, counts)
    older = replace(ENVIRONMENT, scheduler_python="3.10.1")
    assert "Python 3.11 and 3.10" in doubt(of_counts, counts, environment=older)
    assert doubt(of_counts, counts, "transferred") == "the baseline has no transferred"


def test_costs_per_task_of_bodies_with_other_tasks_are_a_doubt() -> None:
    """Also where all of a body counts: it may make none."""
    own = ClusterFacts(OWN_VIRTUAL, "inproc://scheduler", 2, 2)

    def judged_against(tasks: int) -> LimitResult:
        then = measured(counted({FUNCTION: 10.0}, tasks=tasks), cluster=own)
        record = counted({FUNCTION: 10.0}, tasks=TASKS)
        after = Measurement(measured(record, cluster=own), record)
        profile = {FUNCTION: {"bytecodes": 10.0 * TASKS}}
        now = Costs([unit_of(TASKS, {}, [CostProfile("counts", "", profile)])] * 3)
        reference = Reference("main", [then]).before(after)
        return judge(parse_limit("bytecodes <= baseline"), now, [], reference)

    assert judged_against(TASKS).verdict is Verdict.PASS
    for tasks in (0, TASKS // 2):
        assert judged_against(tasks).verdict is Verdict.INCONCLUSIVE
        assert f"another amount of work: {tasks} tasks a round" in judged_against(tasks).note


def test_the_longest_stall_is_held_against_the_longest_of_then() -> None:
    """That may have been another function's."""
    other = f"{SCHEDULER}.other"

    def stalled(one: float, two: float) -> Costs:
        functions = {FUNCTION: {"stall": one}, other: {"stall": two}}
        profile = CostProfile("stalls", "", functions, {"stall": max(one, two)})
        return Costs([unit_of(1, {}, [profile])])

    then, now = stalled(0.1, 0.02), stalled(0.01, 0.06)
    before, after = (
        replace(counted({FUNCTION: 1.0}), costs=costs.measured()) for costs in (then, now)
    )
    reference = Reference("main", [measured(before)]).before(Measurement(measured(after), after))
    assert judge(parse_limit("stall <= baseline * 1.2"), now, [], reference).verdict is Verdict.PASS
    (finding,) = judge(parse_limit("stall <= 1s"), now, []).findings
    assert finding.subject == other


def test_a_figure_that_no_record_has_is_not_zero() -> None:
    lacking = CostProfile("counts", "", {FUNCTION: {"calls": 1.0}}, {"transfers": 1.0})
    costs = Costs([unit_of(TASKS, {}, [lacking])] * 3)
    result = judge(parse_limit("transferred <= 1MB"), costs, [])
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.note == "the recording has no transferred"


MODULE = "distributed.scheduler"

RARE = {f"{SCHEDULER}.rare_{number}": 0.2 for number in range(10)}
"""Each is less than 0.05 % of the whole, so that a record folds them."""

HOT = {FUNCTION: 1000.0}


def held_against(before: dict[str, float], after: dict[str, float], limit: str) -> LimitResult:
    """Judge a limit as a session does: all functions of now, against the record of then."""
    then, record = (counted_in([side] * 3, is_everything=True) for side in (before, after))
    reference = Reference("main", [measured(then)]).before(Measurement(measured(record), record))
    profile = {name: {"bytecodes": cost * TASKS} for name, cost in after.items()}
    whole = CostProfile("counts", "", profile, is_everything=True)
    now = Costs([unit_of(TASKS, {}, [whole])] * 3)
    return judge(parse_limit(limit), now, list(after), reference)


def test_functions_that_the_baseline_folded_are_judged_together() -> None:
    limit = f"bytecodes({MODULE}:*) <= baseline * 1.1"
    other_one = {**RARE, f"{SCHEDULER}.rare_0": 0.3, f"{SCHEDULER}.rare_1": 0.1}
    assert held_against(HOT | RARE, HOT | RARE, limit).verdict is Verdict.PASS
    assert held_against(HOT | RARE, HOT | other_one, limit).verdict is Verdict.PASS
    dearer = held_against(HOT | RARE, HOT | {name: 0.4 for name in RARE}, limit)
    assert dearer.verdict is Verdict.FAIL
    assert dearer.findings[0].subject == f"{MODULE}:<others>"
    assert dearer.findings[0].estimate.value == pytest.approx(4)
    hot = held_against(HOT | RARE, {FUNCTION: 1200.0} | RARE, limit)
    assert (hot.verdict, hot.findings[0].subject) == (Verdict.FAIL, FUNCTION)


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=300))
def test_unchanged_figures_are_within_the_baseline(amounts: list[float]) -> None:
    """However the rounding errors of their sums fall."""
    same = {f"{SCHEDULER}.f{number}": amount for number, amount in enumerate(amounts)}
    for limit in (f"bytecodes({MODULE}:*) <= baseline", "bytecodes <= baseline"):
        assert held_against(same, same, limit).verdict is Verdict.PASS


def test_rounds_of_several_sizes_are_no_rounds_of_one() -> None:
    """What differs between the sizes is not how much CPU time varies."""
    prices = (301e-6, 299e-6, 300e-6)

    def verdict(scales: Sequence[int], rounds: int) -> Verdict:
        units = [
            unit_of(1000, {"cpu": 1000 * price}, [], scale)
            for scale, price in zip(scales, prices, strict=True)
        ] * rounds
        shares = shares_of([[recorded([(FIRST,)] * 100)]], drift=0.0, whole=Costs(units))
        return verdict_on("cpu <= 305us", shares).verdict

    assert verdict([0, 0, 0], rounds=1) is Verdict.PASS
    assert verdict([1, 2, 3], rounds=1) is Verdict.INCONCLUSIVE
    assert verdict([1, 2, 3], rounds=3) is Verdict.PASS


def test_of_a_part_of_them_the_baseline_cannot_tell() -> None:
    """Its line holds functions that the pattern does not name."""
    limit = f"bytecodes({SCHEDULER}.rare_*) <= baseline * 1.1"
    assert held_against(HOT | RARE, HOT | RARE, limit).verdict is Verdict.INCONCLUSIVE


def test_what_the_other_side_cannot_tell_is_a_doubt_too() -> None:
    """One pair of rounds cannot show scatter, and bytecodes differ between Python versions."""
    counts, one_round = counted({FUNCTION: 10.0}), counted_in([{FUNCTION: 10.0}])
    older = replace(ENVIRONMENT, scheduler_python="3.10.1")
    of_counts, of_one_round, of_times = (
        InTurns("other", measured(side))
        for side in (counts, one_round, sampled({(FUNCTION,): 1.0}))
    )
    assert doubt(of_counts, counts) == ""
    assert "1 pair of rounds" in doubt(of_one_round, one_round)
    assert "Python 3.11 and 3.10" in doubt(of_counts, counts, environment=older)
    assert "nothing was measured" in doubt(of_times, counts)


def test_the_baseline_gives_the_same_figures_as_its_record() -> None:
    costs = counted({FUNCTION: 10.0, f"{SCHEDULER}.other": 5.0})
    before = Reference("main", [measured(costs)]).before(Measurement(measured(costs), costs))
    assert before.of("bytecodes", FUNCTION).value == pytest.approx(10)
    assert before.of("bytecodes", "@transitions").value == pytest.approx(15)
    assert before.of("bytecodes", "").value == pytest.approx(15)
    assert before.of("bytecodes", "never:seen").value == 0
    times = sampled({(FUNCTION,): 1.0})
    before = Reference("main", [measured(times)]).before(Measurement(measured(times), times))
    assert before.of("share", FUNCTION).value == 1
    assert before.of("self", FUNCTION).value == 1
    assert before.of("share", "@transitions").value == 1
    assert before.of("cpu", "").value == pytest.approx(300e-6)
    assert before.of("cpu", FUNCTION).value == pytest.approx(300e-6)


GIB = 2.0**30


def evidence(*figures: tuple[str, str, list[float]], kind: str = "memory") -> Evidence:
    amounts = tuple(RunAmounts(name, subject, tuple(values)) for name, subject, values in figures)
    return Evidence(kind, (), amounts=amounts)


def of_memory(*peaks: float) -> Evidence:
    return evidence(("memory", "process", list(peaks)))


def of_test(*gathered: Evidence, **facts: Any) -> Result:
    return measured(counted({"a:b": 1.0}), evidence=gathered, **facts)


def judged(text: str, now: Evidence, reference: Reference | InTurns | None = None) -> LimitResult:
    earlier = Earlier(reference, of_test(now))
    (judged_evidence,), errors = judge_evidence([parse_limit(text)], [now], earlier)
    if errors:
        raise errors[0]
    return judged_evidence.limits[0]


@pytest.mark.parametrize(
    ("peaks", "verdict"),
    [
        ([2 * GIB], Verdict.PASS),
        ([3.9 * GIB], Verdict.INCONCLUSIVE),
        ([5 * GIB], Verdict.FAIL),
        ([3.9 * GIB, 3.9 * GIB, 3.91 * GIB], Verdict.PASS),
        ([2 * GIB, 3.5 * GIB, 6 * GIB], Verdict.INCONCLUSIVE),
        ([4.2 * GIB, 4.21 * GIB, 4.22 * GIB], Verdict.FAIL),
    ],
)
def test_three_runs_show_what_one_must_assume(peaks: list[float], verdict: Verdict) -> None:
    assert judged("memory(process) <= 4GiB", of_memory(*peaks)).verdict is verdict


def test_the_largest_scale_is_judged_and_growth_is_of_all() -> None:
    amounts = RunAmounts("memory", "process", (1e6, 1e8, 1e10), (100, 1000, 10_000))
    grown = replace(of_memory(), amounts=(amounts,))
    assert judged("memory(process) <= 1GB", grown).verdict is Verdict.FAIL
    result = judged("growth(memory, process) <= 1.2", grown)
    assert result.verdict is Verdict.FAIL
    assert result.findings[0].estimate.value == pytest.approx(2)
    one_size = judged("growth(memory, process) <= 1.2", of_memory(1, 2))
    assert "two scales or more" in one_size.note


def test_the_growth_of_each_task_that_a_pattern_names_is_judged() -> None:
    sizes = (100, 1000, 10_000)

    def of(name: str, power: float) -> RunAmounts:
        return RunAmounts("duration", name, tuple(float(size) ** power for size in sizes), sizes)

    linear, square = of("inc", 1), of("sum", 2)
    late = RunAmounts("duration", "late", (1.0,), sizes[-1:])
    grown = Evidence("tasks", (), amounts=(linear, square))
    result = judged("growth(duration, *) <= 1.5", grown)
    assert [(finding.subject, finding.verdict.value) for finding in result.findings] == [
        ("sum", "fail"),
        ("inc", "pass"),
    ]
    at_one_size = judged("growth(duration, *) <= 9", replace(grown, amounts=(linear, late)))
    assert at_one_size.verdict is Verdict.INCONCLUSIVE
    assert "two scales or more" in at_one_size.note


def test_a_figure_without_any_amount_is_not_zero() -> None:
    none = evidence(("memory", "process", []), ("memory", "managed", [GIB]))
    result = judged("memory(process) <= 4GiB", none)
    assert (result.verdict, result.note) == (
        Verdict.INCONCLUSIVE,
        "evidence 'memory' has no figure",
    )
    assert judged("memory(*) <= 4GiB", none).findings[0].subject == "managed"
    before = judged("memory(process) <= baseline", of_memory(1), reference(none))
    assert before.note == "the baseline has no memory(process)"


DURATIONS = evidence(
    ("duration", "", [0.3]), ("duration", "inc", [0.1]), ("duration", "sum", [0.5]), kind="tasks"
)


def test_each_task_that_a_pattern_names_is_judged() -> None:
    result = judged("duration(*) <= 300ms", DURATIONS)
    assert [(finding.subject, finding.verdict.value) for finding in result.findings] == [
        ("sum", "fail"),
        ("inc", "pass"),
    ]
    assert describe(result) == (
        "duration(*) <= 300ms: sum is 500 ms per task (at least 418 ms, at most 582 ms) in 1 run"
    )
    assert judged("duration <= 1s", DURATIONS).verdict is Verdict.PASS


def test_a_task_that_did_not_run_is_an_error() -> None:
    with pytest.raises(LimitError, match="'inx' names no task of the test; there were: inc, sum"):
        judged("duration(inx) <= 1ms", DURATIONS)


def test_evidence_that_is_missing_or_has_no_figure_is_a_doubt() -> None:
    missing = Evidence("tasks", (), missing="no worker finished a task of the test")
    result = judged("duration(inx) <= 1ms", missing)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert describe(result) == (
        "duration(inx) <= 1ms: no evidence 'tasks': no worker finished a task of the test"
    )
    unsampled = replace(evidence(kind="phases"), notes=("no phases of the scheduler",))
    assert judged("phase(intake) <= 1ms", unsampled).note == "no phases of the scheduler"


@pytest.mark.parametrize(
    ("limits", "added"),
    [
        ((), set()),
        (("memory(process) <= 1B", "transfers(bytes) <= 1B"), set()),
        (("memory(unmanaged) <= 1B", "memory(spilled) <= baseline"), {"unmanaged"}),
        (("growth(memory, managed_total) <= 1",), {"managed_total"}),
        (("memory(unmanaged_*) <= 1B",), {"unmanaged_old", "unmanaged_recent"}),
        (("memory(*) <= 1B",), {*MEASURES} - {*SAMPLED}),
    ],
)
def test_measures_that_limits_bound_are_sampled(limits: tuple[str, ...], added: set[str]) -> None:
    parsed = [parse_limit(text) for text in limits]
    assert {*measures_of(MemoryOptions(), parsed)} == {*SAMPLED, *added}
    alone = measures_of(MemoryOptions(("spilled",)), parsed)
    assert {"spilled", *added} <= {*alone}


def reference(*gathered: Evidence, **facts: Any) -> Reference:
    return Reference("main", [of_test(*gathered, **facts)])


THREE = [100.0, 101.0, 99.0]


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "pass"), (1.2, "fail")])
def test_a_relative_limit_is_judged_by_the_noise_of_both_sides(factor: float, verdict: str) -> None:
    now = of_memory(*(value * factor for value in THREE))
    result = judged("memory(process) <= baseline * 1.1", now, reference(of_memory(*THREE)))
    assert result.verdict.value == verdict
    assert result.findings[0].before is not None
    assert "(before: 100 B)" in describe(result)
    ((source, row, limit),) = limits_of(of_test(replace(now, limits=(result,))))
    assert limit is not None
    assert (source, row.findings[0].subject) == ("memory", "process")
    assert grounds_of(row.findings[0], limit) == "3 runs; before: 100 B"


def test_the_newest_baseline_with_such_evidence_counts() -> None:
    old = of_test(of_memory(*THREE), started_at="2025-01-01T00:00:00+00:00")
    new = of_test(of_memory(1, 1, 1), started_at="2025-02-01T00:00:00+00:00")
    none = of_test(Evidence("memory", (), missing="x"), started_at="2025-03-01T00:00:00+00:00")
    series = Reference("main", [new, none, old])
    result = judged("memory(process) <= baseline * 1.5", of_memory(*THREE), series)
    assert result.findings[0].before is not None
    assert result.findings[0].before.value == 1


def test_evidence_of_other_work_is_not_held_against_and_the_same_settings_come_first() -> None:
    def of_day(day: int, peak: float, workers: int = 16, tasks: int = 1000, **facts: Any) -> Result:
        backend = counted({"a:b": 1.0}, tasks=tasks)
        started = f"2025-01-0{day}T00:00:00+00:00"
        cluster = ClusterFacts("simulated", "tcp://127.0.0.1:1", workers, workers)
        facts = {"cluster": cluster, "started_at": started, **facts}
        return measured(backend, evidence=(of_memory(peak),), **facts)

    def against(*results: Result) -> LimitResult:
        limit = "memory(process) <= baseline * 1.5"
        return judged(limit, of_memory(*THREE), Reference("main", results))

    same, fewer_workers = of_day(1, 90), of_day(2, 9, workers=4)
    local = of_day(3, 9, cluster=ClusterFacts("local", "tcp://127.0.0.1:1", 2, 2))
    assert against(same, fewer_workers, local).verdict is Verdict.PASS
    assert against(fewer_workers).verdict is Verdict.FAIL, "a setting is what may be compared"
    assert "another amount of work: 100 tasks a round" in against(of_day(1, 9, tasks=100)).note
    (backend,) = same.backends
    segments = tuple(replace(part, scale=100) for part in backend.window.segments)
    scaled = replace(backend, window=replace(backend.window, segments=segments))
    assert "another scale" in against(replace(same, backends=(scaled,))).note


def test_what_the_baseline_cannot_tell_of_evidence_is_a_doubt_too() -> None:
    def doubt(text: str, now: Evidence, before: Reference | InTurns | None) -> str:
        return judged(text, now, before).note

    memory, time = "memory(process) <= baseline", "duration <= baseline"
    elsewhere = replace(ENVIRONMENT, scheduler_machine="another x 8")
    local = ClusterFacts("local", "tcp://127.0.0.1:1", 2, 2)
    assert "no baseline" in doubt(memory, of_memory(1), None)
    assert "has no evidence 'memory'" in doubt(memory, of_memory(1), reference())
    unknown = reference(of_memory(1), test_id="new")
    assert "does not contain this test" in doubt(memory, of_memory(1), unknown)
    local_cluster = reference(of_memory(1), cluster=local)
    assert "another kind of cluster" in doubt(memory, of_memory(1), local_cluster)
    of_another = reference(DURATIONS, environment=elsewhere)
    assert "times are of another machine" in doubt(time, DURATIONS, of_another)
    assert doubt(time, DURATIONS, InTurns("old", of_test(DURATIONS, environment=elsewhere))) == ""
    other = reference(evidence(("memory", "managed", [1.0])))
    assert doubt(memory, of_memory(1), other) == "the baseline has no memory(process)"
    assert doubt("memory(*) <= baseline", of_memory(1), reference(of_memory(2))) == ""
    fewer = reference(evidence(("duration", "sum", [0.1]), kind="tasks"))
    assert judged("duration(inc) <= baseline", DURATIONS, fewer).verdict is Verdict.FAIL
