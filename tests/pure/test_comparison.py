"""Tests of comparing two measurements of a test: regression, improvement, shift or no change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from drawn import kept
from hypothesis import given, settings
from hypothesis import strategies as st
from measured import (
    ENVIRONMENT,
    SCHEDULER,
    TRANSITION,
    compare,
    counted,
    counted_in,
    limited,
    measured,
    sampled,
)
from msgspec.structs import replace

from pytest_schedprof.judge import compare as comparing
from pytest_schedprof.judge.compare import compare_in_turns
from pytest_schedprof.judge.estimate import ALPHA, MANY
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.model.comparison import Change, Comparison, Outcome, Setting
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import (
    IN_PROCESS,
    BackendResult,
    ClusterFacts,
    Result,
    Segment,
    Window,
)
from pytest_schedprof.store.baselines import load

TRANSITIONS = f"{SCHEDULER}._transitions"
CHECK = f"{SCHEDULER}.check_idle_saturated"
WRITE = "distributed.comm.tcp:TCP.write"
UPDATE = "distributed.scheduler:Scheduler.update_graph"
LOOP = "asyncio.base_events:BaseEventLoop._run_once"

COSTS = {TRANSITION: 1052.0, TRANSITIONS: 400.0, CHECK: 178.0, WRITE: 300.0}


def compared(before: BackendResult, after: BackendResult, **facts: Any) -> Comparison:
    """Compare two records; the facts are those of the second test."""
    (comparison,) = compare([measured(before)], [measured(after, **facts)]).comparisons
    return comparison


def everything(costs: Mapping[str, float]) -> BackendResult:
    """The result of `counts` by default, for three rounds."""
    result = counted_in([costs] * 3, is_everything=True)
    return replace(result, settings={"modules": ["everything"]})


def outcomes(comparison: Comparison) -> dict[str, Outcome]:
    return {
        f"{change.metric} {change.subject}".strip(): change.outcome for change in comparison.changes
    }


HELPER, STEP = f"{SCHEDULER}._helper", f"{SCHEDULER}._step"
REST = {name: cost for name, cost in COSTS.items() if name != TRANSITION}
IMPROVED, REGRESSED, SHIFTED = Outcome.IMPROVED, Outcome.REGRESSED, Outcome.SHIFTED


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ({**COSTS, TRANSITION: 1052.0 * 1.01}, {TRANSITION: REGRESSED}),
        ({**COSTS, TRANSITION: 1052.0 * 1.009}, {}),
        (
            {name: cost * 1.05 for name, cost in COSTS.items()},
            dict.fromkeys([*COSTS, ""], REGRESSED),
        ),
        # A rename, one with an extracted helper, and one that costs more too.
        ({**REST, STEP: 1052.0}, dict.fromkeys([TRANSITION, STEP], SHIFTED)),
        (
            {**REST, STEP: 760.0, HELPER: 300.0},
            dict.fromkeys([TRANSITION, STEP, HELPER], SHIFTED),
        ),
        ({**REST, STEP: 1300.0}, {TRANSITION: IMPROVED, STEP: REGRESSED, "": REGRESSED}),
        # A helper is a move only if what it was in does less by as much.
        (
            {**COSTS, TRANSITION: 1019.0, HELPER: 36.0},
            dict.fromkeys([TRANSITION, HELPER], SHIFTED),
        ),
        (
            {**COSTS, TRANSITION: 1035.0, HELPER: 36.0},
            {TRANSITION: IMPROVED, HELPER: REGRESSED},
        ),
        # What was made cheaper does not hide what was made dearer.
        (
            {**COSTS, TRANSITION: 1052.0 * 0.8, TRANSITIONS: 400.0 * 1.2},
            {TRANSITION: IMPROVED, TRANSITIONS: REGRESSED, "": IMPROVED},
        ),
    ],
)
def test_what_differs_between_two_sets_of_bytecodes(
    after: dict[str, float], expected: dict[str, Outcome]
) -> None:
    comparison = compared(counted(COSTS), counted(after))
    assert outcomes(comparison) == {
        f"bytecodes {name}".strip(): outcome for name, outcome in expected.items()
    }
    assert comparison.same == len({*COSTS, *after, ""}) - len(expected)
    has_risen = REGRESSED in expected.values()
    assert comparison.verdict is (Verdict.FAIL if has_risen else Verdict.PASS)
    for change in comparison.changes:
        old, new = COSTS.get(change.subject, 0.0), after.get(change.subject, 0.0)
        if change.subject and old:
            assert change.relative == pytest.approx(new / old - 1)


INSTRUCTIONS = {TRANSITION: 20_000.0, "c:list_sort_impl": 30_000.0, "c:insertdict": 50_000.0}


@pytest.mark.parametrize(
    ("changed", "subjects"),
    [
        ({"c:list_sort_impl": 30_150.0}, {}),  # 0.5 % of the function
        ({TRANSITION: 20_190.0, "c:list_sort_impl": 30_190.0}, {}),  # 0.19 % of the whole each
        ({TRANSITION: 20_210.0}, {TRANSITION}),
        ({"c:sum": 900.0}, {"c:sum", ""}),  # no move: nothing of its owner fell
        ({name: cost * 1.006 for name, cost in INSTRUCTIONS.items()}, {""}),
    ],
)
def test_instructions_count_from_a_part_of_the_whole_on(
    changed: dict[str, float], subjects: set[str]
) -> None:
    after = {**INSTRUCTIONS, **changed}
    sides = (counted(costs, metric="instructions") for costs in (INSTRUCTIONS, after))
    assert outcomes(compared(*sides)) == {
        f"instructions {subject}".strip(): Outcome.REGRESSED for subject in subjects
    }


@given(st.dictionaries(st.sampled_from(sorted(COSTS)), st.floats(0.1, 1e6), min_size=1))
def test_the_same_counts_are_the_same(costs: dict[str, float]) -> None:
    assert compared(counted(costs), counted(costs)).changes == ()


@given(st.floats(1.011, 100), st.sampled_from([TRANSITION, TRANSITIONS, CHECK]))
def test_what_is_a_regression_one_way_is_an_improvement_the_other(factor: float, name: str) -> None:
    more = {**COSTS, name: COSTS[name] * factor}
    there, back = (compared(counted(COSTS), counted(more)), compared(counted(more), counted(COSTS)))
    assert outcomes(there)[f"bytecodes {name}"] is Outcome.REGRESSED
    # The 1 % threshold refers to the larger figure here.
    assert outcomes(back).get(f"bytecodes {name}") in (Outcome.IMPROVED, None)
    assert there.verdict is Verdict.FAIL
    assert back.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("old", "new", "outcome"),
    [
        (0.0, 36.0, Outcome.REGRESSED),  # new, and less than 1 % of its owner
        (4.9, 6.2, Outcome.REGRESSED),  # a quarter, and a line of its own from now on
        (5.05, 5.09, None),  # less than 1 %, and a line of its own from now on
        (4.0, 4.9, None),  # in the line of others, which rose by less than 1 %
    ],
)
def test_a_function_without_a_line_of_its_own_has_the_figure_it_had(
    old: float, new: float, outcome: Outcome | None
) -> None:
    others = {TRANSITION: 9000.0, CHECK: 1000.0}
    others |= {f"{SCHEDULER}.rare{number}": 4.5 for number in range(30)}
    before, after = (everything({**others, HELPER: value}) for value in (old, new))
    comparison = compared(before, after)
    assert outcomes(comparison) == ({f"bytecodes {HELPER}": outcome} if outcome else {})
    assert all(change.before == pytest.approx(old) for change in comparison.changes)


def test_what_scatters_makes_up_for_no_rise_that_is_the_same_in_every_round() -> None:
    rounds = [{**COSTS, CHECK: value} for value in (140.0, 178.0, 216.0)]
    later = [{**one_round, CHECK: one_round[CHECK] - 42.0, HELPER: 36.0} for one_round in rounds]
    changes = outcomes(compared(counted(*rounds), counted(*later)))
    assert changes[f"bytecodes {HELPER}"] is Outcome.REGRESSED


def test_a_cache_of_the_interpreter_alone_fails_nothing() -> None:
    hook = "collections.abc:Collection.__subclasshook__"
    comparison = compared(everything({**COSTS, hook: 10.0}), everything({**COSTS, hook: 500.0}))
    assert outcomes(comparison) == {f"bytecodes {hook}": Outcome.SHIFTED}
    assert comparison.causes == ()


def test_more_calls_of_a_new_helper_are_a_shift_where_bytecodes_are_known() -> None:
    def both(bytecodes: dict[str, float], calls: dict[str, float]) -> BackendResult:
        one, other = counted(bytecodes), counted(calls, metric="calls")
        assert one.costs
        assert other.costs
        counts = {cost.function: cost.total for cost in other.costs.functions}
        functions = tuple(
            replace(cost, total={**cost.total, **counts[cost.function]})
            for cost in one.costs.functions
        )
        return replace(one, costs=replace(one.costs, functions=functions))

    before = both({TRANSITION: 1052.0, CHECK: 100.0}, {TRANSITION: 6.0, CHECK: 2.0})
    after = both(
        {TRANSITION: 760.0, HELPER: 298.0, CHECK: 100.0}, {TRANSITION: 6.0, HELPER: 6.0, CHECK: 2.0}
    )
    changes = outcomes(compared(before, after))
    assert changes[f"calls {HELPER}"] is Outcome.SHIFTED
    assert Outcome.REGRESSED not in changes.values()


def test_calls_alone_do_not_tell_what_a_new_function_costs() -> None:
    before = counted({TRANSITION: 6.0}, metric="calls")
    after = counted({TRANSITION: 6.0, HELPER: 6.0}, metric="calls")
    comparison = compared(before, after)
    assert set(outcomes(comparison).values()) == {Outcome.UNDECIDED}


def test_what_depends_on_time_needs_more_than_one_percent() -> None:
    rounds = [{**COSTS, WRITE: value} for value in (300.0, 306.0, 294.0, 301.0)]
    later = [{**COSTS, WRITE: number} for number in (305.0, 309.0, 299.0, 303.0)]
    assert compared(counted(*rounds), counted(*later)).verdict is Verdict.PASS
    twice = [{**COSTS, WRITE: 2 * one_round[WRITE]} for one_round in rounds]
    assert compared(counted(*rounds), counted(*twice)).verdict is Verdict.FAIL
    steady = compared(counted(COSTS), counted({**COSTS, WRITE: 304.0}))
    assert outcomes(steady) == {f"bytecodes {WRITE}": Outcome.REGRESSED}


@pytest.mark.parametrize("missed", [1, 2])
def test_a_function_that_some_rounds_did_not_count_is_undecided(missed: int) -> None:
    """A function that is replaced within the window is not seen: its mean falls, and scatters."""
    steady = [{**COSTS, "distributed.scheduler:f": 1000.0}] * 3
    without = [{**COSTS, "distributed.scheduler:f": 0.0}] * missed
    seen_less = counted(*without, *steady[missed:])
    for before, after in [(counted(*steady), seen_less), (seen_less, counted(*steady))]:
        (change,) = [side for side in compared(before, after).changes if side.subject]
        assert (change.subject, change.outcome) == ("distributed.scheduler:f", Outcome.UNDECIDED)
        assert "not at all in others" in change.note


@pytest.mark.parametrize("metric", ["calls", "bytecodes"])
@pytest.mark.parametrize(
    "now", [(0.0, 1000.0, 1000.0), (500.0, 1000.0, 1500.0), (970.0, 1000.0, 1030.0)]
)
def test_a_figure_that_was_steady_and_no_longer_is_is_told(
    now: tuple[float, ...], metric: str
) -> None:
    """Its mean may be that of before, so that nothing else is changed."""
    steady = counted({**COSTS, TRANSITION: 1000.0}, metric=metric)
    wavering = counted(*({**COSTS, TRANSITION: value} for value in now), metric=metric)
    comparison = compared(steady, wavering)
    assert outcomes(comparison) == {f"{metric} {TRANSITION}": Outcome.UNDECIDED}
    assert "in" in comparison.changes[0].note.split()  # "in every round", "in some rounds"
    assert comparison.verdict is Verdict.INCONCLUSIVE


def test_what_wavers_as_before_or_by_little_is_not_told() -> None:
    wavering = [{**COSTS, WRITE: value} for value in (290.0, 300.0, 310.0)]
    assert compared(counted(*wavering), counted(*wavering)).changes == ()
    assert compared(counted(*wavering), counted(COSTS)).changes == ()
    slightly = [{**COSTS, WRITE: number} for number in (298.0, 300.0, 302.0)]
    assert compared(counted(COSTS), counted(*slightly)).changes == ()
    # As where time decides.
    by_chance = [{**COSTS, CHECK: count} for count in (170.0, 178.0, 186.0)]
    assert compared(counted(COSTS), counted(*by_chance)).changes == ()
    rare = [{**COSTS, CHECK: count} for count in (1.0, 2.0, 3.0)]
    assert compared(counted({**COSTS, CHECK: 2.0}), counted(*rare)).changes == ()


def test_of_a_single_round_nobody_knows_what_depends_on_time() -> None:
    once, more = counted_in([COSTS]), counted_in([{**COSTS, CHECK: 186.0}])
    assert outcomes(compared(once, more)) == {f"bytecodes {CHECK}": Outcome.UNDECIDED}
    much = counted_in([{**COSTS, CHECK: 400.0}])
    assert outcomes(compared(once, much))[f"bytecodes {CHECK}"] is Outcome.REGRESSED


def test_how_many_messages_are_sent_as_one_is_no_regression() -> None:
    """Message batching varies between runs of the same code.

    Two rounds of one side had 2.06 messages per task and two of the other 3.01; the bytes of two
    sessions of three rounds differed by 5 %. One more message per task is reported.
    """

    def with_messages(per_task: float, rounds: int) -> BackendResult:
        result = counted_in([COSTS] * rounds)
        assert result.costs
        whole, scatter = {"messages_in": per_task * result.window.tasks}, {"messages_in": 0.0005}
        return replace(result, costs=replace(result.costs, whole=whole, scatter=scatter))

    assert compared(with_messages(2.06, 2), with_messages(3.01, 2)).changes == ()
    assert compared(with_messages(3.0, 3), with_messages(3.15, 3)).changes == ()
    more = compared(with_messages(2.0, 3), with_messages(3.0, 3))
    assert outcomes(more) == {"messages_in": Outcome.REGRESSED}


SMALL = f"{SCHEDULER}.add_replica"


def in_process(
    before: BackendResult, after: BackendResult, seeds: tuple[str, str] = ("random", "random")
) -> Comparison:
    """Compare two sessions whose scheduler was in the test's own process."""
    sides = [
        measured(
            side,
            cluster=ClusterFacts(IN_PROCESS, "", 0, 0),
            environment=replace(ENVIRONMENT, hash_seed=seed),
        )
        for side, seed in zip((before, after), seeds, strict=True)
    ]
    (comparison,) = compare(sides[:1], sides[1:]).comparisons
    return comparison


def test_in_process_a_steady_count_is_exact_whatever_the_seeds_are() -> None:
    """A recording orders sets independently of the seed, so a steady figure stays exact."""
    more = in_process(counted(COSTS), counted({**COSTS, TRANSITION: 1065.0}))
    assert outcomes(more) == {f"bytecodes {TRANSITION}": Outcome.REGRESSED}
    assert "PYTHONHASHSEED=0" in more.changes[0].note
    fixed = in_process(counted(COSTS), counted({**COSTS, TRANSITION: 1065.0}), ("0", "0"))
    assert fixed.of(Outcome.REGRESSED)[0].note == ""


def test_in_process_functions_that_a_worker_calls_too_are_not_compared() -> None:
    more = in_process(counted(COSTS), counted({**COSTS, WRITE: 600.0}))
    assert more.changes == ()


def test_in_process_rare_events_and_the_load_are_no_regression() -> None:
    """Sessions of the same code differed so much, under loads of 2 and of 8 on two cores."""
    costs = {**COSTS, SMALL: 44.0}
    assert not in_process(counted(costs), counted({**costs, SMALL: 45.2})).changes
    quiet = counted(*({**costs, CHECK: 170.0 + n} for n in range(3)))
    loaded = counted(*({**costs, CHECK: 250.0 + 9 * n} for n in range(3)))
    assert not in_process(quiet, loaded).of(Outcome.REGRESSED)
    assert compared(quiet, loaded).of(Outcome.REGRESSED)
    slower = counted(*({**costs, CHECK: 340.0 + n} for n in range(3)))
    assert f"bytecodes {CHECK}" in outcomes(in_process(quiet, slower))
    assert in_process(quiet, slower).verdict is Verdict.FAIL
    # A single round is no reason to trust a figure more.
    once, busier = (counted_in([{**costs, CHECK: cost}]) for cost in (170.0, 230.0))
    assert not in_process(once, busier).of(Outcome.REGRESSED)
    assert compared(once, busier).of(Outcome.REGRESSED)


def in_turns(before: BackendResult, after: BackendResult, kind: str = "simulated") -> Comparison:
    """Compare two sides in turns, the first of which has half as many workers."""
    one, other = (
        Measurement(measured(side, cluster=ClusterFacts(kind, "", workers, workers)), side)
        for side, workers in ((before, 8), (after, 16))
    )
    return compare_in_turns(one, other, ALPHA)


def test_one_pair_of_rounds_in_turns_decides_nothing() -> None:
    """A slow workload spent its whole budget on one pair, whose counts depended on time."""
    more = {**COSTS, TRANSITION: 1100.0}
    once = in_turns(counted_in([COSTS]), counted_in([more]))
    assert once.verdict is Verdict.INCONCLUSIVE
    assert once.reasons[0].startswith("1 pair of rounds, at least 3 are needed")
    assert once.reasons[0].endswith("give a larger budget, or the test less work")
    assert once.settings == (Setting("workers", "8", "16"),)
    virtual = in_turns(counted_in([COSTS]), counted_in([more]), "virtual")
    assert virtual.reasons[0].endswith(": one round of each is enough")
    assert in_turns(counted(COSTS), counted(more)).verdict is Verdict.FAIL


BUSY = {
    (LOOP, UPDATE): 0.2,
    (LOOP, TRANSITIONS, TRANSITION): 0.2,
    (LOOP, TRANSITIONS, CHECK): 0.1,
    (LOOP, WRITE): 0.5,
}


def risen(gain: float) -> dict[tuple[str, ...], float]:
    """Shares after the cost of one function rose by `gain`, in units of the total cost before."""
    return {**BUSY, (LOOP, UPDATE): 0.2 + gain}


def slower(factor: float) -> list[float]:
    return [300e-6 * factor * (1 + 0.01 * value) for value in (-1, 0, 1, -1, 1)]


AS_EVER = sampled(BUSY, cpu=slower(1), seed=1)


def test_a_share_whose_cost_rose_too_is_a_regression() -> None:
    changes = outcomes(compared(AS_EVER, sampled(risen(0.1), cpu=slower(1.1), seed=2)))
    assert changes[f"share {UPDATE}"] is Outcome.REGRESSED
    assert changes["share @graph-intake"] is Outcome.REGRESSED
    assert changes["cpu"] is Outcome.REGRESSED
    assert changes.get(f"share {CHECK}") is not Outcome.REGRESSED
    uniform = compared(AS_EVER, sampled(BUSY, cpu=slower(1.2), seed=2))
    assert outcomes(uniform)["cpu"] is Outcome.REGRESSED
    assert uniform.verdict is Verdict.FAIL


def test_a_function_made_cheaper_makes_no_other_one_fail() -> None:
    """All other shares rise by a half, but the cost of those functions stays the same."""
    faster = sampled({**BUSY, (LOOP, WRITE): 0.17}, cpu=slower(0.67), seed=2)
    assert faster.shares is not None
    busy = faster.shares.busy_samples
    # Samples that wait are no part of a cost, else that of each function would seem to halve.
    waiting = replace(faster.shares, idle_samples=busy, waiting_samples=busy)
    for after in (faster, replace(faster, shares=waiting)):
        comparison = compared(AS_EVER, after)
        changes = outcomes(comparison)
        assert comparison.verdict is not Verdict.FAIL
        assert changes[f"share {WRITE}"] is Outcome.IMPROVED
        assert changes[f"share {UPDATE}"] is Outcome.SHIFTED


def test_cpu_time_in_turns_needs_pairs_that_show_its_scatter() -> None:
    """Identical code once measured 0.7 ms and 1.6 ms, with one pair of rounds each."""
    for pairs, verdict in ((2, Verdict.INCONCLUSIVE), (4, Verdict.FAIL)):
        before, after = slower(1)[:pairs], slower(2)[:pairs]
        comparison = in_turns(sampled(BUSY, cpu=before), sampled(BUSY, cpu=after, seed=1))
        assert comparison.verdict is verdict


@pytest.mark.parametrize(
    ("before", "rounds", "outcome"),
    [
        ([300e-6, 301e-6, 299e-6], 1, Outcome.UNDECIDED),  # one round tells no scatter
        ([100e-6, 300e-6] * 3, 3, Outcome.REGRESSED),  # the rounds are alike
        ([300e-6, 301e-6, 299e-6, 300e-6], 3, Outcome.UNDECIDED),  # of which round are they?
    ],
)
def test_windows_of_one_round_are_no_rounds(
    before: list[float], rounds: int, outcome: Outcome
) -> None:
    def of(factor: float) -> BackendResult:
        backend = sampled({(LOOP, WRITE): 1.0}, cpu=[value * factor for value in before])
        return replace(backend, window=replace(backend.window, rounds=rounds))

    assert outcomes(compared(of(1.0), of(1.12)))["cpu"] is outcome


def test_samples_of_a_renamed_function_or_of_an_extracted_helper_have_moved() -> None:
    above = (LOOP, TRANSITIONS)
    rest = {stack: share for stack, share in BUSY.items() if stack[-1] != TRANSITION}
    renamed = {**rest, (*above, STEP): BUSY[*above, TRANSITION]}
    recast = {**BUSY, (*above, TRANSITION): 0.1, (*above, TRANSITION, HELPER): 0.1}
    for stacks, moved in ((renamed, (STEP, TRANSITION)), (recast, (HELPER,))):
        changes = outcomes(compared(AS_EVER, sampled(stacks, cpu=slower(1), seed=2)))
        assert {changes[f"share {name}"] for name in moved} == {SHIFTED}
        assert REGRESSED not in changes.values()


def test_identical_code_is_rarely_called_a_regression() -> None:
    """No test of forty fails, over all figures; a benchmark checks real runs."""
    for number in range(40):
        sides = (sampled(BUSY, samples=330, seed=2 * number + side) for side in (0, 1))
        assert compared(*sides).verdict is not Verdict.FAIL, number


def test_six_points_more_of_a_fifth_are_seen() -> None:
    """Check simulated rounds; `benchmarks/regressions.py power` checks real ones."""
    seen = 0
    for trial in range(20):
        before = sampled(BUSY, cpu=slower(1) * 2, samples=330, seed=2 * trial)
        after = sampled(risen(0.081), cpu=slower(1.081) * 2, samples=330, seed=2 * trial + 1)
        seen += outcomes(compared(before, after)).get(f"share {UPDATE}") is Outcome.REGRESSED
    assert seen >= 19


def test_what_seems_to_scatter_less_than_is_usual_does_so_by_chance() -> None:
    side = sampled(BUSY, samples=200, seed=8)
    figures = Measurement(measured(side), side)
    usual = median(share.dispersion for share in figures.shares.values())
    assert usual > 1.2
    for name, share in figures.shares.items():
        figure, ratio = figures.share(name, share.value), share.dispersion
        expected = max(ratio, usual) * (figure.value * (1 - figure.value) / 1000) ** 0.5
        assert figure.error == pytest.approx(expected, abs=1e-5)
        assert figure.freedom == (MANY if ratio <= usual else 4)


def undecided_cpu(before: tuple[float, ...], after: tuple[float, ...]) -> Change:
    functions = (f"{SCHEDULER}.f{number}" for number in range(25))
    shares: dict[tuple[str, ...], float] = {(LOOP, function): 0.04 for function in functions}
    sides = [sampled(shares, cpu=cpu, samples=400) for cpu in (before, after)]
    (cpu,) = (change for change in compared(*sides).changes if change.metric == "cpu")
    assert cpu.outcome is Outcome.UNDECIDED
    return cpu


def test_the_bounds_of_what_is_undecided_are_those_that_leave_it_open() -> None:
    """By the bounds of one figure alone it had risen by 30 to 53 %."""
    change = undecided_cpu((200e-6, 210e-6, 205e-6), (278e-6, 302e-6, 290e-6))
    assert change.relative == pytest.approx(0.41, abs=0.01)
    assert change.low < 0 < change.high
    assert change.note.startswith("between the rounds CPU time varies too much to tell: ")
    scattered = undecided_cpu((100e-6, 500e-6, 900e-6), (110e-6, 520e-6, 1000e-6))
    assert scattered.low == -scattered.before  # no cost falls by more than itself
    of_one_window = undecided_cpu((200e-6,), (290e-6,))
    assert of_one_window.low < 0
    assert of_one_window.note == (
        "fewer than three rounds do not show how much CPU time varies: run three or more"
    )


@pytest.mark.parametrize(
    ("samples", "reason"),
    [(400, "2,000 samples do not rule out a rise of 2 pp"), (40_000, "between")],
)
def test_samples_are_blamed_just_where_more_of_them_would_decide(samples: int, reason: str) -> None:
    scattering = tuple(300e-6 * value for value in (0.8, 1.1, 1.2, 0.9, 1.0))
    sides = [sampled(risen(more), cpu=scattering, samples=samples) for more in (1.0, 1.04)]
    notes = [change.note for change in compared(*sides).changes]
    assert any(note.startswith(reason) for note in notes)
    assert samples == 400 or not any("samples" in note for note in notes)


@given(
    st.lists(st.floats(0.7, 1.4), min_size=3, max_size=5),
    st.lists(st.floats(0.7, 1.6), min_size=3, max_size=5),
    st.floats(0.8, 1.6),
)
@settings(max_examples=15)
def test_bounds_decide(before: list[float], after: list[float], gain: float) -> None:
    sides = (
        sampled(risen(1.0), cpu=[value * 1e-4 for value in before], samples=400),
        sampled(risen(gain), cpu=[number * 1e-4 for number in after], samples=400, seed=1),
    )
    for change in compared(*sides).changes:
        if change.outcome is Outcome.REGRESSED:
            assert change.low > 0
        elif change.outcome is Outcome.IMPROVED:
            assert change.high < 0
        elif change.outcome is Outcome.UNDECIDED and change.low > 0:
            assert change.note.startswith(("it rose, perhaps by", "its CPU time per task ("))


@pytest.mark.parametrize(
    ("kind", "rounds", "hint"),
    [
        ("virtual", 3, "with PYTHONHASHSEED=0 in both sessions"),
        ("simulated", 3, "with --schedprof-cluster=virtual each run is the same"),
        ("simulated", 2, "run three rounds or more"),
    ],
)
def test_a_hint_can_be_followed_from_where_the_user_is(kind: str, rounds: int, hint: str) -> None:
    cluster = ClusterFacts(kind, "tcp://127.0.0.1:1", 16, 16)
    costs = [{**COSTS, TRANSITION: 1000.0 * value} for value in (1.0, 1.03, 0.985)][:rounds]
    dearer = [{**cost, TRANSITION: cost[TRANSITION] * 1.06} for cost in costs]
    sides = [measured(counted_in(side), cluster=cluster) for side in (costs, dearer)]
    (comparison,) = compare(sides[:1], sides[1:]).comparisons
    (change,) = (one for one in comparison.changes if one.subject == TRANSITION)
    assert change.outcome is Outcome.UNDECIDED
    assert change.low < 0
    assert hint in change.note


def test_another_mode_scale_or_amount_of_work_is_never_compared() -> None:
    before, after = counted(COSTS), counted(COSTS)
    sized = replace(after, window=Window(1, (Segment(1.0, 0.3, 1000, 6000, scale=100),)))
    for other, word in (
        (replace(after, mode="native"), "another mode"),
        (sized, "another scale"),
        (counted(COSTS, tasks=2000), "another amount of work"),
        (replace(after, doubt="its trace lacks its beginning"), "cannot be judged"),
        (replace(after, backend="cprofile"), "nothing of cprofile"),
    ):
        assert word in compared(before, other).reasons[0]
    comparison = compared(before, after, cluster=ClusterFacts("local", "x", 16, 16))
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.changes == ()
    (reason,) = comparison.reasons
    assert reason == "another kind of cluster: the baseline has simulated, this run local"


def test_counts_of_all_modules_are_never_compared_with_those_of_some() -> None:
    some, more, every = (
        replace(counted(COSTS), settings={"modules": modules})
        for modules in (["distributed.scheduler"], ["distributed.scheduler", "dask.*"], ["all"])
    )
    (reason,) = compared(some, every).reasons
    assert reason == (
        "another choice of counted modules: the baseline has distributed.scheduler, this run all"
    )
    assert compared(every, every).reasons == compared(some, more).reasons == ()
    default = replace(every, settings={"modules": ["scheduling", "distributed.batched"]})
    assert "this run scheduling distributed.batched" in compared(every, default).reasons[0]


CARRIER = "distributed.batched:BatchedSend.send"
"""Code of which only `everything` counts, beside the work on tasks."""


def test_a_baseline_of_fewer_modules_is_compared_by_those() -> None:
    before = replace(counted(COSTS), settings={"modules": ["scheduling"]})
    after = everything({**COSTS, CARRIER: 500.0, "my_plugin:Plugin.transition": 100.0})
    comparison = compared(before, after)
    assert not comparison.changes
    assert not comparison.reasons
    (setting,) = comparison.settings
    assert (setting.before, setting.after) == ("scheduling", "everything")
    more = everything({**COSTS, TRANSITION: 1020.0, CARRIER: 500.0})
    assert set(outcomes(compared(before, more))) >= {f"bytecodes {TRANSITION}"}


def test_what_carries_messages_may_move_by_a_fifth_and_is_in_no_sum() -> None:
    before = everything({**COSTS, CARRIER: 500.0})
    assert compared(before, everything({**COSTS, CARRIER: 590.0})).changes == ()
    risen = outcomes(compared(before, everything({**COSTS, CARRIER: 1500.0})))
    assert risen == {f"bytecodes {CARRIER}": Outcome.REGRESSED}


def test_a_function_of_the_user_is_compared_as_exactly_as_dasks() -> None:
    plugin = "my_plugin:Plugin.transition"
    before = everything({**COSTS, plugin: 100.0})
    risen = compared(before, everything({**COSTS, plugin: 102.0}))
    assert outcomes(risen) == {f"bytecodes {plugin}": Outcome.REGRESSED}
    assert risen.changes[0].owner == "plugins"


def test_times_of_another_machine_are_never_compared_and_counts_are() -> None:
    elsewhere = replace(ENVIRONMENT, scheduler_machine="another x 64")
    before = measured(counted(COSTS), sampled(BUSY))
    after = measured(counted(COSTS), sampled(risen(0.5)), environment=elsewhere)
    counts, times = compare([before], [after]).comparisons
    assert counts.backend == "counts"
    assert counts.verdict is Verdict.PASS
    assert times.verdict is Verdict.INCONCLUSIVE
    assert "another machine" in times.reasons[0]


@pytest.mark.parametrize("fact", ["scheduler_machine", "scheduler_platform"])
def test_instructions_of_another_processor_or_kernel_are_never_compared(fact: str) -> None:
    before = counted(COSTS, metric="instructions")
    after = counted({TRANSITION: 9e9}, metric="instructions")
    assert compared(before, after).verdict is Verdict.FAIL
    other = compared(before, after, environment=replace(ENVIRONMENT, **{fact: "another"}))
    assert other.verdict is Verdict.INCONCLUSIVE
    assert "another processor, kernel or C library: a processor x 2" in other.reasons[0]


def test_the_newest_that_fits_is_compared_with() -> None:
    old = measured(counted({**COSTS, TRANSITION: 900.0}), started_at="2025-01-01")
    new = measured(counted(COSTS), started_at="2026-01-01")
    other = measured(
        counted({TRANSITION: 1.0}),
        started_at="2026-06-01",
        environment=replace(ENVIRONMENT, scheduler_python="3.13.0"),
    )
    (comparison,) = compare([old, new, other], [measured(counted(COSTS))]).comparisons
    assert comparison.verdict is Verdict.PASS


def test_new_vanished_renamed_and_failed_tests_are_told(tmp_path: Path) -> None:
    def of(test_id: str, **facts: Any) -> Result:
        return measured(counted(COSTS), test_id=test_id, **facts)

    before = [of(f"a.py::test_{name}") for name in ("one", "two", "old", "bad")]
    after = [
        of("a.py::test_one"),
        of("b.py::test_two"),
        of("a.py::test_new"),
        of("a.py::test_bad", outcome="failed"),
    ]
    report = compare(before, after)
    assert report.new == ("a.py::test_new",)
    assert report.vanished == ("a.py::test_old",)
    assert report.renamed == (("a.py::test_two", "b.py::test_two"),)
    assert report.unusable == ("a.py::test_bad",)
    assert report.verdict is Verdict.INCONCLUSIVE, "nothing is known of one of the earlier tests"
    assert compare(before[:3], after).verdict is Verdict.PASS
    assert [comparison.test_id for comparison in report.comparisons] == [
        "a.py::test_one",
        "b.py::test_two",
    ]
    runs = [kept(tmp_path / name, *side) for name, side in (("a", before), ("b", after))]
    assert comparing.compare(*(load(str(run), "").tests for run in runs)) == report


def test_a_test_that_an_inconclusive_limit_fails_did_its_work() -> None:
    """As under `strict`; one that fails for another reason may have left work undone."""
    unsure, failed = (
        limited(verdict, outcome="failed") for verdict in (Verdict.INCONCLUSIVE, Verdict.PASS)
    )
    report = compare([unsure], [unsure])
    assert (report.unusable, len(report.comparisons)) == ((), 1)
    for other in (failed, replace(unsure, is_whole=False)):
        assert compare([unsure], [other]).unusable == (unsure.test_id,)


def test_parameters_with_colons_are_no_names() -> None:
    before, after = (
        [measured(counted(COSTS), test_id=f"a.py::test_{name}[::1]")]
        for name in ("listen", "connect")
    )
    assert compare(before, after).renamed == ()
    moved = [measured(counted(COSTS), test_id="b.py::test_listen[::1]")]
    assert compare(before, moved).renamed == (("a.py::test_listen[::1]", "b.py::test_listen[::1]"),)


def with_transitions(per_task: float, costs: dict[str, float]) -> BackendResult:
    result = counted_in([costs] * 3)
    assert result.costs
    whole = {"transitions": per_task * result.window.tasks}
    return replace(result, costs=replace(result.costs, whole=whole))


def test_in_process_tasks_that_took_another_way_leave_it_open() -> None:
    """In one session of 20 under load, 34 of 40 tasks were queued that otherwise were not."""
    more = {**COSTS, TRANSITION: 1300.0}
    before, queued = with_transitions(4.0, COSTS), with_transitions(5.7, more)
    comparison = in_process(before, queued)
    assert {change.outcome for change in comparison.changes} == {Outcome.UNDECIDED}
    assert "other ways through the state machine" in comparison.changes[0].note
    same_way = in_process(before, with_transitions(4.0, more))
    assert f"bytecodes {TRANSITION}" in outcomes(same_way)
    assert same_way.verdict is Verdict.FAIL
    assert compared(before, queued).verdict is Verdict.FAIL  # on a cluster of our own
