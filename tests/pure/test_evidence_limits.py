"""Tests of limits on evidence: their grammar, their verdicts, and their baselines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from measured import ENVIRONMENT, counted, measured

from pytest_schedprof.errors import LimitError
from pytest_schedprof.evidence.memory import MemoryOptions, measures_of
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.judge.reference import InTurns, Reference
from pytest_schedprof.measuring.assessment import Earlier
from pytest_schedprof.measuring.judging import judge_evidence
from pytest_schedprof.model.evidence import Evidence, RunAmounts
from pytest_schedprof.model.limit import LimitResult, Verdict
from pytest_schedprof.model.metric import (
    MEASURES,
    SAMPLED,
)
from pytest_schedprof.model.result import ClusterFacts, Result
from pytest_schedprof.report.tables import describe, grounds_of, limits_of

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


def test_the_newest_baseline_with_such_evidence_counts() -> None:
    old = of_test(of_memory(*THREE), started_at="2025-01-01T00:00:00+00:00")
    new = of_test(of_memory(1, 1, 1), started_at="2025-02-01T00:00:00+00:00")
    none = of_test(Evidence("memory", (), missing="x"), started_at="2025-03-01T00:00:00+00:00")
    series = Reference("main", [new, none, old])
    result = judged("memory(process) <= baseline * 1.5", of_memory(*THREE), series)
    assert result.findings[0].before is not None
    assert result.findings[0].before.value == 1


def test_what_the_baseline_cannot_tell_is_a_doubt_with_its_reason() -> None:
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
    there = reference(DURATIONS, environment=elsewhere)
    assert "times are of another machine" in doubt(time, DURATIONS, there)
    assert doubt(time, DURATIONS, InTurns("old", of_test(DURATIONS, environment=elsewhere))) == ""
    other = reference(evidence(("memory", "managed", [1.0])))
    assert doubt(memory, of_memory(1), other) == "the baseline has no memory(process)"
    assert doubt("memory(*) <= baseline", of_memory(1), reference(of_memory(2))) == ""
    fewer = reference(evidence(("duration", "sum", [0.1]), kind="tasks"))
    assert judged("duration(inc) <= baseline", DURATIONS, fewer).verdict is Verdict.FAIL


def test_rows_name_the_kind_and_the_runs() -> None:
    now = of_memory(*THREE)
    result = judged("memory(process) <= baseline * 1.1", now, reference(of_memory(*THREE)))
    ((source, row, limit),) = limits_of(of_test(replace(now, limits=(result,))))
    assert limit is not None
    assert (source, row.findings[0].subject) == ("memory", "process")
    assert grounds_of(row.findings[0], limit) == "3 runs; before: 100 B"
