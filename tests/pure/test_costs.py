"""Tests of costs: functions that are folded, peaks, which are momentary, and growth."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.judge.costs import KEPT, Costs, Unit, exponent, folded, is_line, unit_of
from pytest_schedprof.judge.estimate import Figure
from pytest_schedprof.judge.exact import aligned
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.judge.verdicts import judge
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.profile import CostProfile, is_work
from pytest_schedprof.report.tables import describe
from pytest_schedprof.report.terminal import cost_lines

LARGE = "distributed.scheduler:SchedulerState._transition"
SMALL = "distributed.scheduler:SchedulerState.coerce_hostname"
GRAPH = "distributed.scheduler:Scheduler.update_graph"
SCHEDULERS = "distributed.scheduler:<others>"
COUNTS = {
    LARGE: {"calls": 10_000, "bytecodes": 1_000_000},
    SMALL: {"calls": 1, "bytecodes": 100},
    GRAPH: {"calls": 1, "bytecodes": 200},
    "dask.utils:key_split": {"calls": 1, "bytecodes": 50},
    "dask.utils:often": {"calls": 6, "bytecodes": 6},
    "pandas.core:<module>": {"calls": 1, "bytecodes": 10},
    "pandas.io:<module>": {"calls": 1, "bytecodes": 20},
}


def costs_of(
    counts: Mapping[str, Mapping[str, int]], *, is_everything: bool = True, rounds: int = 1
) -> Costs:
    profile = CostProfile("counts", "", counts, is_everything=is_everything)
    return Costs([unit_of(100, {}, [profile]) for _ in range(rounds)])


def test_rare_functions_have_one_line_for_their_module_and_owner() -> None:
    assert folded(COUNTS) == {
        LARGE: [LARGE],
        SCHEDULERS: [SMALL],
        "distributed.scheduler:<others-graph-intake>": [GRAPH],
        "dask.utils:<others>": ["dask.utils:key_split"],
        "dask.utils:often": ["dask.utils:often"],  # by its calls
        "pandas:<module>": ["pandas.core:<module>", "pandas.io:<module>"],
    }


def test_folding_keeps_the_sum_of_each_owner() -> None:
    costs = costs_of(COUNTS, rounds=3)
    lines = costs.measured().functions
    for metric in ("calls", "bytecodes"):
        for owner in {line.owner for line in lines} - {"import"}:
            kept = sum(line.total[metric] for line in lines if line.owner == owner)
            assert kept / 300 == pytest.approx(costs.of(metric, f"@{owner}").value)
        assert sum(line.total[metric] for line in lines) == 3 * sum(
            of_function[metric] for of_function in COUNTS.values()
        )


def test_a_function_that_a_limit_names_is_kept() -> None:
    functions = {cost.function for cost in costs_of(COUNTS).measured([SMALL]).functions}
    assert SMALL in functions
    assert SCHEDULERS not in functions


def test_other_backends_and_choices_name_every_function() -> None:
    costs = costs_of(COUNTS, is_everything=False).measured().functions
    assert {lines.function for lines in costs} == COUNTS.keys()


def test_a_record_has_few_lines_whatever_ran() -> None:
    counts = {f"dask.m{i % 50}:f{i}": {"calls": 1, "bytecodes": i} for i in range(5000)}
    lines = costs_of(counts).measured().functions
    assert len(lines) <= 50 + 2 / KEPT
    assert sum(is_line(line.function) for line in lines) == 50


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (LARGE, True),
        ("copy:deepcopy", True),
        ("my_plugin:Plugin.transition", True),
        ("<string>:made", True),
        ("distributed.batched:BatchedSend.send", False),
        ("tornado.iostream:IOStream.write", False),
        ("functools:singledispatch.<locals>.wrapper", False),
        ("pandas.core.frame:DataFrame.__init__", False),
    ],
)
def test_what_is_work(function: str, expected: bool) -> None:
    assert is_work(function) == expected


LOADS = "distributed.protocol.core:loads"
DUMPS = "distributed.protocol.core:dumps"


def with_peaks(loads: float, dumps: float) -> CostProfile:
    functions = {
        LOADS: {"peak": loads, "calls": 10.0},
        DUMPS: {"peak": dumps, "calls": 10.0},
    }
    return CostProfile("a", "", functions, {"peak": loads + dumps, "messages_in": 5.0})


def of_peaks() -> Costs:
    """Costs of two rounds, the second in two segments."""
    first = unit_of(10, {}, [with_peaks(1e6, 3e6)])
    second = unit_of(10, {}, [with_peaks(2e6, 1e6), with_peaks(1e6, 4e6)])
    return Costs([first, second])


def test_the_highest_peak_counts_and_all_else_is_added_up() -> None:
    measured = of_peaks().measured()
    assert measured.whole == {"peak": 5e6, "messages_in": 15.0}
    assert {function.function: function.total for function in measured.functions} == {
        LOADS: {"peak": 2e6, "calls": 30.0},
        DUMPS: {"peak": 4e6, "calls": 30.0},
    }


def test_functions_with_peaks_alone_are_told_by_them() -> None:
    units = [unit_of(0, {}, [CostProfile("a", "", {"m:small": {"peak": 1}, "m:big": {"peak": 2}})])]
    assert [cost.function for cost in Costs(units).measured().functions] == ["m:big", "m:small"]


def test_a_peak_is_shown_as_it_is_and_needs_no_task() -> None:
    measured = of_peaks().measured()
    head, _, loads = (line.text.split() for line in list(cost_lines(measured, 20, 5))[:3])
    assert head[:2] == ["calls/task", "peak"]
    assert loads[:3] == ["1.5", "2", "MB"]
    head, dumps, _ = (line.text.split() for line in list(cost_lines(measured, 0, 5))[:3])
    assert head[:1] == ["peak"]
    assert dumps[:2] == ["4", "MB"]


def test_a_window_without_tasks_has_no_cost_per_task_to_show() -> None:
    with_peaks = CostProfile("a", "", {LOADS: {"calls": 10.0}}, {})
    measured = Costs([unit_of(0, {}, [with_peaks])]).measured()
    assert list(cost_lines(measured, 0, 5)) == []


SCALES = st.lists(st.integers(1, 10**6), min_size=2, max_size=6, unique=True)


@given(SCALES, st.floats(-1, 3), st.floats(0.01, 1e6))
def test_a_power_is_found_exactly(scales: list[int], power: float, factor: float) -> None:
    points = [(scale, factor * scale**power) for scale in scales]
    fit = exponent(points, 1, 0.0)
    assert fit.value == pytest.approx(power, abs=1e-6)
    assert fit.low == fit.high == fit.value


def test_a_linear_scan_for_each_task_grows_as_a_square() -> None:
    points = [(scale, 500.0 * scale + 4.0 * scale**2) for scale in (100, 1000, 10_000)]
    assert 1.2 < exponent(points, 1, 0.0).value < 2


def test_timed_amounts_have_bounds_that_hold_the_truth() -> None:
    rng, missed = random.Random(0), 0
    for _ in range(500):
        points = [(n, 3.0 * n * rng.gauss(1, 0.1)) for n in (100, 1000, 10_000)]
        fit = exponent(points, 1, 0.1)
        missed += not fit.low <= 1 <= fit.high
    assert missed / 500 < 0.1


@pytest.mark.parametrize("amounts", [(0.0, 0.0, 5e4), (0.0, 10.0, 1e5), (3.0, 0.0, 0.0)])
def test_what_happened_at_some_scales_only_may_grow_without_bounds(
    amounts: tuple[float, ...],
) -> None:
    fit = exponent(list(zip((100, 1000, 10_000), amounts, strict=True)), 1, 0.0)
    assert fit.low < 1 < fit.high
    assert exponent([(10, 0.0), (100, 0.0)], 1, 0.0).value == exponent([], 1, 0.0).value == 0


@given(SCALES, st.integers(1, 1000))
def test_what_is_linear_is_exactly_so(scales: list[int], factor: int) -> None:
    assert exponent([(n, float(factor * n)) for n in scales], 1, 0.0).high <= 1


def of_power(power: float) -> Costs:
    return Costs(
        [
            Unit(scale, {"m:f": {"bytecodes": 7.0 * scale**power}}, {}, scale=scale)
            for scale in (100, 1000)
        ]
    )


def test_limits_on_growth_are_judged() -> None:
    limit = parse_limit("growth(bytecodes, m:f) <= 1.05")
    assert judge(limit, of_power(1.0), ["m:f"]).verdict is Verdict.PASS
    broken = judge(limit, of_power(1.5), ["m:f"])
    assert broken.verdict is Verdict.FAIL
    assert "grows as scale ** 1.5" in describe(broken)


def test_without_scales_there_is_no_verdict() -> None:
    one = Costs([Unit(10, {"m:f": {"calls": 10.0}}, {})])
    result = judge(parse_limit("growth(calls) <= 1.05"), one, [])
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "scale=[100, 1000]" in result.note


def of_both(before: dict[str, float], after: dict[str, float]) -> list[dict[str, float]]:
    """Figures of both sides by the same names, where nobody knows what was folded."""
    one, other = ({name: Figure(cost) for name, cost in side.items()} for side in (before, after))
    return [{name: figure.value for name, figure in side.items()} for side in aligned(one, other)]


def test_a_function_that_only_one_side_names_is_among_its_others_unless_it_rose() -> None:
    less, more = {LARGE: 1e6, SCHEDULERS: 900.0}, {LARGE: 1e6, SMALL: 510.0, SCHEDULERS: 400.0}
    assert of_both(less, more) == [less, {LARGE: 1e6, SCHEDULERS: 910.0}]
    assert of_both(more, less) == [{LARGE: 1e6, SCHEDULERS: 910.0}, less]
    assert of_both(less, {**more, SMALL: 5000.0})[1][SMALL] == 5000.0
    without = {LARGE: 1e6, SMALL: 1.0}
    assert of_both(without, {LARGE: 1e6}) == [without, {LARGE: 1e6}]
    assert of_both(without, {LARGE: 1e6, SCHEDULERS: 1.0})[0] == {LARGE: 1e6, SCHEDULERS: 1.0}
