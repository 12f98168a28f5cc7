"""Tests of limits relative to a baseline: their syntax, and the noise of both sides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import ENVIRONMENT, SCHEDULER, TASKS, counted, counted_in, measured, sampled

from pytest_schedprof.judge.costs import Costs, unit_of
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.judge.limits import merge_limits, parse_limit
from pytest_schedprof.judge.reference import InTurns, Reference
from pytest_schedprof.judge.verdicts import excess, judge
from pytest_schedprof.model.limit import Estimate, LimitResult, Verdict
from pytest_schedprof.model.profile import CostProfile
from pytest_schedprof.model.result import BackendResult

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
    assert parse_limit(str(limit)) == limit


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


def doubt(before: BackendResult, after: BackendResult, metric: str, **facts: Any) -> str:
    reference = Reference("main", [measured(before)])
    return reference.before(Measurement(measured(after, **facts), after)).doubt(metric)


def test_what_the_baseline_cannot_tell_is_a_doubt_with_its_reason() -> None:
    counts, times = counted({FUNCTION: 10.0}), sampled({(FUNCTION,): 1.0})
    elsewhere = replace(ENVIRONMENT, scheduler_machine="another x 8")
    assert doubt(counts, counts, "calls") == ""
    assert doubt(times, times, "share") == ""
    assert doubt(counts, counts, "calls", environment=elsewhere) == ""
    assert "another machine" in doubt(times, times, "share", environment=elsewhere)
    assert "does not contain this test" in doubt(counts, counts, "calls", test_id="new")
    assert "nothing of counts" in doubt(times, counts, "calls")
    older = replace(ENVIRONMENT, scheduler_python="3.10.1")
    assert "Python 3.11 and 3.10" in doubt(counts, counts, "calls", environment=older)


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


def test_of_a_part_of_them_the_baseline_cannot_tell() -> None:
    """Its line holds functions that the pattern does not name."""
    limit = f"bytecodes({SCHEDULER}.rare_*) <= baseline * 1.1"
    assert held_against(HOT | RARE, HOT | RARE, limit).verdict is Verdict.INCONCLUSIVE


def doubt_in_turns(before: BackendResult, after: BackendResult, **facts: Any) -> str:
    baseline = InTurns("other", measured(before)).before(
        Measurement(measured(after, **facts), after)
    )
    return baseline.doubt("calls")


def test_what_the_other_side_cannot_tell_is_a_doubt_too() -> None:
    """One pair of rounds cannot show scatter, and bytecodes differ between Python versions."""
    counts, one_round = counted({FUNCTION: 10.0}), counted_in([{FUNCTION: 10.0}])
    older = replace(ENVIRONMENT, scheduler_python="3.10.1")
    assert doubt_in_turns(counts, counts) == ""
    assert "1 pair of rounds" in doubt_in_turns(one_round, one_round)
    assert "Python 3.11 and 3.10" in doubt_in_turns(counts, counts, environment=older)
    assert "nothing was measured" in doubt_in_turns(sampled({(FUNCTION,): 1.0}), counts)


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
