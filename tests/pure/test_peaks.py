"""Tests of peaks: they are momentary, so never summed over rounds and never divided by tasks."""

from __future__ import annotations

from pytest_schedprof.judge.costs import Costs, unit_of
from pytest_schedprof.model.profile import CostProfile
from pytest_schedprof.report.terminal import cost_lines

LOADS = "distributed.protocol.core:loads"
DUMPS = "distributed.protocol.core:dumps"


def profile(loads: float, dumps: float) -> CostProfile:
    functions = {
        LOADS: {"peak": loads, "calls": 10.0},
        DUMPS: {"peak": dumps, "calls": 10.0},
    }
    return CostProfile("a", "", functions, {"peak": loads + dumps, "messages_in": 5.0})


def costs() -> Costs:
    """Costs of two rounds, the second in two segments."""
    first = unit_of(10, {}, [profile(1e6, 3e6)])
    second = unit_of(10, {}, [profile(2e6, 1e6), profile(1e6, 4e6)])
    return Costs([first, second])


def test_the_highest_peak_counts_and_all_else_is_added_up() -> None:
    measured = costs().measured()
    assert measured.whole == {"peak": 5e6, "messages_in": 15.0}
    assert {function.function: function.total for function in measured.functions} == {
        LOADS: {"peak": 2e6, "calls": 30.0},
        DUMPS: {"peak": 4e6, "calls": 30.0},
    }


def test_functions_with_peaks_alone_are_told_by_them() -> None:
    units = [unit_of(0, {}, [CostProfile("a", "", {"m:small": {"peak": 1}, "m:big": {"peak": 2}})])]
    assert [cost.function for cost in Costs(units).measured().functions] == ["m:big", "m:small"]


def test_a_peak_is_shown_as_it_is_and_needs_no_task() -> None:
    measured = costs().measured()
    head, _, loads = (line.text.split() for line in list(cost_lines(measured, 20, 5))[:3])
    assert head[:2] == ["calls/task", "peak"]
    assert loads[:3] == ["1.5", "2", "MB"]
    head, dumps, _ = (line.text.split() for line in list(cost_lines(measured, 0, 5))[:3])
    assert head[:1] == ["peak"]
    assert dumps[:2] == ["4", "MB"]


def test_a_window_without_tasks_has_no_cost_per_task_to_show() -> None:
    profile = CostProfile("a", "", {LOADS: {"calls": 10.0}}, {})
    measured = Costs([unit_of(0, {}, [profile])]).measured()
    assert list(cost_lines(measured, 0, 5)) == []
