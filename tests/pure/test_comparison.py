"""Two measurements of one test: what is a regression, an improvement, a shift, or neither."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import ENVIRONMENT, SCHEDULER, counted, counted_in, measured, sampled

from pytest_schedprof.analysis.student import MANY
from pytest_schedprof.comparison.compare import compare, compare_in_turns
from pytest_schedprof.comparison.figures import Figures
from pytest_schedprof.comparison.matching import Measurement
from pytest_schedprof.comparison.policy import DEFAULT_POLICY
from pytest_schedprof.model.comparison import Comparison, Outcome
from pytest_schedprof.model.place import ClusterFacts
from pytest_schedprof.model.result import BackendResult, Result, Segment, Window
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.reports.changes import comparison_lines

TRANSITION = f"{SCHEDULER}._transition"
TRANSITIONS = f"{SCHEDULER}._transitions"
CHECK = f"{SCHEDULER}.check_idle_saturated"
WRITE = "distributed.comm.tcp:TCP.write"
UPDATE = "distributed.scheduler:Scheduler.update_graph"
LOOP = "asyncio.base_events:BaseEventLoop._run_once"

COSTS = {TRANSITION: 1052.0, TRANSITIONS: 400.0, CHECK: 178.0, WRITE: 300.0}


def compared(before: BackendResult, after: BackendResult) -> Comparison:
    (comparison,) = compare([measured(before)], [measured(after)]).comparisons
    return comparison


def outcomes(comparison: Comparison) -> dict[str, Outcome]:
    return {f"{each.metric} {each.subject}".strip(): each.outcome for each in comparison.changes}


def test_one_percent_more_bytecodes_of_one_function_is_a_regression() -> None:
    more = {**COSTS, TRANSITION: 1052.0 * 1.01}
    comparison = compared(counted(COSTS), counted(more))
    assert outcomes(comparison) == {f"bytecodes {TRANSITION}": Outcome.REGRESSED}
    assert comparison.verdict is Verdict.FAIL
    assert comparison.changes[0].relative == pytest.approx(0.01)


def test_less_than_one_percent_is_the_same() -> None:
    comparison = compared(counted(COSTS), counted({**COSTS, TRANSITION: 1052.0 * 1.009}))
    assert comparison.verdict is Verdict.PASS
    assert comparison.same == len(COSTS) + 1


@given(st.dictionaries(st.sampled_from(sorted(COSTS)), st.floats(0.1, 1e6), min_size=1))
def test_the_same_counts_are_the_same(costs: dict[str, float]) -> None:
    assert compared(counted(costs), counted(costs)).changes == ()


@given(st.floats(1.011, 100), st.sampled_from([TRANSITION, TRANSITIONS, CHECK]))
def test_what_is_a_regression_one_way_is_an_improvement_the_other(factor: float, name: str) -> None:
    more = {**COSTS, name: COSTS[name] * factor}
    there, back = (compared(counted(COSTS), counted(more)), compared(counted(more), counted(COSTS)))
    assert outcomes(there)[f"bytecodes {name}"] is Outcome.REGRESSED
    assert outcomes(back).get(f"bytecodes {name}") in (Outcome.IMPROVED, None)  # 1 % of more
    assert there.verdict is Verdict.FAIL
    assert back.verdict is Verdict.PASS


def test_a_uniform_slowdown_is_a_regression_by_bytecodes_of_each_and_of_the_whole() -> None:
    slower = {name: cost * 1.05 for name, cost in COSTS.items()}
    found = outcomes(compared(counted(COSTS), counted(slower)))
    assert found["bytecodes"] is Outcome.REGRESSED
    assert found[f"bytecodes {TRANSITION}"] is Outcome.REGRESSED


def test_a_rename_is_a_shift() -> None:
    renamed = {f"{SCHEDULER}._transition_of_a_task": 1052.0, **COSTS}
    del renamed[TRANSITION]
    comparison = compared(counted(COSTS), counted(renamed))
    assert set(outcomes(comparison).values()) == {Outcome.SHIFTED}
    assert comparison.verdict is Verdict.PASS


def test_a_rename_with_an_extracted_helper_is_a_shift() -> None:
    recast = {f"{SCHEDULER}._step": 760.0, f"{SCHEDULER}._step_helper": 300.0, **COSTS}
    del recast[TRANSITION]
    comparison = compared(counted(COSTS), counted(recast))
    assert set(outcomes(comparison).values()) == {Outcome.SHIFTED}


def test_a_rename_that_also_costs_more_is_a_regression() -> None:
    renamed = {f"{SCHEDULER}._step": 1300.0, **COSTS}
    del renamed[TRANSITION]
    found = outcomes(compared(counted(COSTS), counted(renamed)))
    assert found[f"bytecodes {SCHEDULER}._step"] is Outcome.REGRESSED
    assert found["bytecodes"] is Outcome.REGRESSED


def test_a_function_made_cheaper_does_not_hide_another_made_dearer() -> None:
    both = {**COSTS, TRANSITION: 1052.0 * 0.8, TRANSITIONS: 400.0 * 1.2}
    found = outcomes(compared(counted(COSTS), counted(both)))
    assert found[f"bytecodes {TRANSITIONS}"] is Outcome.REGRESSED
    assert found[f"bytecodes {TRANSITION}"] is Outcome.IMPROVED


def test_more_calls_of_a_new_helper_are_a_shift_where_bytecodes_are_known() -> None:
    def both(bytecodes: dict[str, float], calls: dict[str, float]) -> BackendResult:
        one, other = counted(bytecodes), counted(calls, metric="calls")
        assert one.costs
        assert other.costs
        counts = {each.function: each.total for each in other.costs.functions}
        functions = tuple(
            replace(each, total={**each.total, **counts[each.function]})
            for each in one.costs.functions
        )
        return replace(one, costs=replace(one.costs, functions=functions))

    helper = f"{SCHEDULER}._helper"
    before = both({TRANSITION: 1052.0, CHECK: 100.0}, {TRANSITION: 6.0, CHECK: 2.0})
    after = both(
        {TRANSITION: 760.0, helper: 298.0, CHECK: 100.0}, {TRANSITION: 6.0, helper: 6.0, CHECK: 2.0}
    )
    found = outcomes(compared(before, after))
    assert found[f"calls {helper}"] is Outcome.SHIFTED
    assert Outcome.REGRESSED not in found.values()


def test_calls_alone_do_not_tell_what_a_new_function_costs() -> None:
    before = counted({TRANSITION: 6.0}, metric="calls")
    after = counted({TRANSITION: 6.0, f"{SCHEDULER}._helper": 6.0}, metric="calls")
    comparison = compared(before, after)
    assert set(outcomes(comparison).values()) == {Outcome.UNDECIDED}


def test_what_depends_on_time_needs_more_than_one_percent() -> None:
    rounds = [{**COSTS, WRITE: each} for each in (300.0, 306.0, 294.0, 301.0)]
    later = [{**COSTS, WRITE: each} for each in (305.0, 309.0, 299.0, 303.0)]
    assert compared(counted(*rounds), counted(*later)).verdict is Verdict.PASS
    twice = [{**COSTS, WRITE: 2 * each[WRITE]} for each in rounds]
    assert compared(counted(*rounds), counted(*twice)).verdict is Verdict.FAIL
    steady = compared(counted(COSTS), counted({**COSTS, WRITE: 304.0}))
    assert outcomes(steady) == {f"bytecodes {WRITE}": Outcome.REGRESSED}


def test_of_a_single_round_nobody_knows_what_depends_on_time() -> None:
    once, more = counted_in([COSTS]), counted_in([{**COSTS, CHECK: 186.0}])
    assert outcomes(compared(once, more)) == {f"bytecodes {CHECK}": Outcome.UNDECIDED}
    much = counted_in([{**COSTS, CHECK: 400.0}])
    assert outcomes(compared(once, much))[f"bytecodes {CHECK}"] is Outcome.REGRESSED


def test_how_many_messages_are_sent_as_one_is_no_regression() -> None:
    """Seen of the same code: 2.06 a task in both rounds of one side, 3.01 in those of the other,
    and between two sessions of three rounds 5 % of the bytes. A message more per task is told."""

    def with_messages(per_task: float, rounds: int) -> BackendResult:
        found = counted_in([COSTS] * rounds)
        assert found.costs
        whole, scatter = {"messages_in": per_task * found.window.tasks}, {"messages_in": 0.0005}
        return replace(found, costs=replace(found.costs, whole=whole, scatter=scatter))

    assert compared(with_messages(2.06, 2), with_messages(3.01, 2)).changes == ()
    assert compared(with_messages(3.0, 3), with_messages(3.15, 3)).changes == ()
    more = compared(with_messages(2.0, 3), with_messages(3.0, 3))
    assert outcomes(more) == {"messages_in": Outcome.REGRESSED}


def in_turns(before: BackendResult, after: BackendResult) -> Comparison:
    one, other = (Measurement(measured(each), each) for each in (before, after))
    return compare_in_turns(one, other, DEFAULT_POLICY)


def test_one_pair_of_rounds_in_turns_decides_nothing() -> None:
    """Seen with a slow workload: all the budget for one pair, and what depends on time in it."""
    more = {**COSTS, TRANSITION: 1100.0}
    once = in_turns(counted_in([COSTS]), counted_in([more]))
    assert once.verdict is Verdict.INCONCLUSIVE
    assert once.reasons[0].startswith("1 pair of rounds, at least 3 are needed")
    assert in_turns(counted(COSTS), counted(more)).verdict is Verdict.FAIL


BUSY = {
    (LOOP, UPDATE): 0.2,
    (LOOP, TRANSITIONS, TRANSITION): 0.2,
    (LOOP, TRANSITIONS, CHECK): 0.1,
    (LOOP, WRITE): 0.5,
}


def risen(gain: float) -> dict[tuple[str, ...], float]:
    """One function took so much more, in units of all that was before."""
    return {**BUSY, (LOOP, UPDATE): 0.2 + gain}


def slower(factor: float) -> list[float]:
    return [300e-6 * factor * (1 + 0.01 * each) for each in (-1, 0, 1, -1, 1)]


AS_EVER = sampled(BUSY, cpu=slower(1), seed=1)


def test_a_share_whose_cost_rose_too_is_a_regression() -> None:
    before, after = (
        AS_EVER,
        sampled(risen(0.1), cpu=slower(1.1), seed=2),
    )
    found = outcomes(compared(before, after))
    assert found[f"share {UPDATE}"] is Outcome.REGRESSED
    assert found["share @graph-intake"] is Outcome.REGRESSED
    assert found["cpu"] is Outcome.REGRESSED
    assert found.get(f"share {CHECK}") is not Outcome.REGRESSED


def test_a_function_made_cheaper_makes_no_other_one_fail() -> None:
    """All other shares rise by a half; their cost does not."""
    faster = {**BUSY, (LOOP, WRITE): 0.17}
    comparison = compared(AS_EVER, sampled(faster, cpu=slower(0.67), seed=2))
    found = outcomes(comparison)
    assert comparison.verdict is not Verdict.FAIL
    assert found[f"share {WRITE}"] is Outcome.IMPROVED
    assert found[f"share {UPDATE}"] is Outcome.SHIFTED


def test_a_uniform_slowdown_is_a_regression_by_cpu() -> None:
    comparison = compared(AS_EVER, sampled(BUSY, cpu=slower(1.2), seed=2))
    assert outcomes(comparison)["cpu"] is Outcome.REGRESSED
    assert comparison.verdict is Verdict.FAIL


def test_cpu_time_in_turns_needs_pairs_that_show_its_scatter() -> None:
    """As 0.7 ms and 1.6 ms were seen of the same code, in one pair of rounds each."""
    for pairs, verdict in ((2, Verdict.INCONCLUSIVE), (4, Verdict.FAIL)):
        before, after = slower(1)[:pairs], slower(2)[:pairs]
        comparison = in_turns(sampled(BUSY, cpu=before), sampled(BUSY, cpu=after, seed=1))
        assert comparison.verdict is verdict


def test_samples_of_a_renamed_function_have_moved() -> None:
    renamed = dict(BUSY)
    renamed[(LOOP, TRANSITIONS, f"{SCHEDULER}._step")] = renamed.pop(
        (LOOP, TRANSITIONS, TRANSITION)
    )
    comparison = compared(AS_EVER, sampled(renamed, cpu=slower(1), seed=2))
    found = outcomes(comparison)
    assert found[f"share {SCHEDULER}._step"] is Outcome.SHIFTED
    assert found[f"share {TRANSITION}"] is Outcome.SHIFTED
    assert Outcome.REGRESSED not in found.values()


def test_samples_of_an_extracted_helper_have_moved() -> None:
    helper = (LOOP, TRANSITIONS, TRANSITION, f"{SCHEDULER}._helper")
    recast = {**BUSY, (LOOP, TRANSITIONS, TRANSITION): 0.1, helper: 0.1}
    comparison = compared(AS_EVER, sampled(recast, cpu=slower(1), seed=2))
    found = outcomes(comparison)
    assert found[f"share {SCHEDULER}._helper"] is Outcome.SHIFTED
    assert Outcome.REGRESSED not in found.values()


def test_identical_code_is_rarely_called_a_regression() -> None:
    """At most one of a hundred tests, all figures together; the benchmark asks it of real runs."""
    comparisons = [
        compared(sampled(BUSY, seed=2 * each), sampled(BUSY, seed=2 * each + 1))
        for each in range(100)
    ]
    assert sum(each.verdict is Verdict.FAIL for each in comparisons) <= 1


def test_six_points_more_of_a_fifth_are_seen() -> None:
    """Of simulated rounds; `benchmarks/regressions.py power` asks it of real ones."""
    seen = 0
    for trial in range(40):
        before = sampled(BUSY, cpu=slower(1) * 2, samples=330, seed=2 * trial)
        after = sampled(risen(0.081), cpu=slower(1.081) * 2, samples=330, seed=2 * trial + 1)
        seen += outcomes(compared(before, after)).get(f"share {UPDATE}") is Outcome.REGRESSED
    assert seen >= 38


def test_what_seems_to_scatter_less_than_is_usual_does_so_by_chance() -> None:
    figures = Figures(sampled(BUSY, samples=200, seed=3))
    found = [figures.share(name, share.value) for name, share in figures.shares.items()]
    ratios = [figures.shares[name].dispersion for name in figures.shares]
    usual = median(ratios)
    assert usual < max(ratios)
    for figure, ratio in zip(found, ratios, strict=True):
        expected = max(ratio, usual) * (figure.value * (1 - figure.value) / 1000) ** 0.5
        assert figure.error == pytest.approx(expected, abs=1e-5)
        assert figure.freedom == (MANY if ratio <= usual else 4)


def test_what_is_true_of_several_figures_is_said_once_below_them() -> None:
    noisy = sampled(BUSY, samples=100)
    (heading, *lines) = comparison_lines("main", [compared(noisy, noisy)], verbosity=1)
    notes = [line.text.strip() for line in lines if line.text.startswith("      ")]
    assert "undecided" in heading.text
    assert notes.count("too few samples: give more rounds or more work") == 1


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"environment": replace(ENVIRONMENT, scheduler_python="3.12.1")}, "another Python"),
        ({"cluster": ClusterFacts("simulated", "x", 1000, 1000)}, "another cluster"),
        (
            {"environment": replace(ENVIRONMENT, configuration={"validate": "True"})},
            "distributed.scheduler.validate: the baseline has False, this run True",
        ),
    ],
)
def test_other_circumstances_are_never_compared(change: dict[str, Any], word: str) -> None:
    (found,) = compare([measured(counted(COSTS))], [measured(counted(COSTS), **change)]).comparisons
    assert found.verdict is Verdict.INCONCLUSIVE
    assert word in found.reasons[0]
    assert found.changes == ()


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


def test_times_of_another_machine_are_never_compared_and_counts_are() -> None:
    elsewhere = replace(ENVIRONMENT, scheduler_machine="another x 64")
    before = measured(counted(COSTS), sampled(BUSY))
    after = measured(counted(COSTS), sampled(risen(0.5)), environment=elsewhere)
    counts, times = sorted(compare([before], [after]).comparisons, key=lambda each: each.backend)[
        ::-1
    ]
    if counts.backend != "counts":
        counts, times = times, counts
    assert counts.verdict is Verdict.PASS
    assert times.verdict is Verdict.INCONCLUSIVE
    assert "another machine" in times.reasons[0]


def test_the_newest_that_fits_is_compared_with() -> None:
    old = measured(counted({**COSTS, TRANSITION: 900.0}), started_at="2025-01-01")
    new = measured(counted(COSTS), started_at="2026-01-01")
    other = measured(
        counted({TRANSITION: 1.0}),
        started_at="2026-06-01",
        environment=replace(ENVIRONMENT, scheduler_python="3.13.0"),
    )
    (found,) = compare([old, new, other], [measured(counted(COSTS))]).comparisons
    assert found.verdict is Verdict.PASS


def test_new_vanished_renamed_and_failed_tests_are_told() -> None:
    def of(test_id: str, **facts: Any) -> Result:
        return measured(counted(COSTS), test_id=test_id, **facts)

    before = [
        of("a.py::test_one"),
        of("a.py::test_two"),
        of("a.py::test_old"),
        of("a.py::test_bad"),
    ]
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
    assert [each.test_id for each in report.comparisons] == ["a.py::test_one", "b.py::test_two"]
