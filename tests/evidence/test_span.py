"""Tests of a test's spans, against those of the live scheduler."""

from __future__ import annotations

from operator import neg
from typing import Any

import msgspec
import pytest
from distributed import Scheduler, span, wait
from support import Project
from witness import opened

from pytest_schedprof.agent import facts
from pytest_schedprof.evidence.contract import ObservedTest
from pytest_schedprof.evidence.span import HOLLOW, SpanKind
from pytest_schedprof.model.evidence import Span, Spans

FIELDS = (
    "enqueued",
    "start",
    "stop",
    "states",
    "duration",
    "all_durations",
    "nbytes_total",
    "active_cpu_seconds",
)


def live_span(name: str, dask_scheduler: Scheduler) -> dict[str, Any]:
    """Values of the live span's own properties."""
    found = dask_scheduler.extensions["spans"].spans[name]
    return {
        **{field: getattr(found, field) for field in FIELDS},
        "nthreads_intervals": found.nthreads_intervals,
        "code": [[frame.code for frame in frames] for frames in found.code],
        "metrics": {tuple(k): v for k, v in found.cumulative_worker_metrics.items()},
        "children": [child.id for child in found.children],
    }


def merged_span(names: list[str], dask_scheduler: Scheduler) -> dict[str, Any]:
    spans = dask_scheduler.extensions["spans"].spans
    found = [spans[name] for name in names]
    merged = type(found[0]).merge(*found)
    return {
        **{field: getattr(merged, field) for field in FIELDS},
        "nthreads_intervals": merged.nthreads_intervals,
        "metrics": {tuple(k): v for k, v in merged.cumulative_worker_metrics.items()},
    }


def plain(found: Span) -> dict[str, Any]:
    return {
        **{field: getattr(found, field) for field in FIELDS},
        "nthreads_intervals": list(found.nthreads_intervals),
        "code": [[frame.code for frame in frames] for frames in found.code],
        "metrics": {each.name: each.value for each in found.cumulative_worker_metrics},
        "children": [child.id for child in found.children],
    }


@pytest.fixture(scope="module")
def spans() -> Any:
    """Evidence of two body runs, with what the scheduler itself reported right after them."""
    with opened("local") as scheduler:
        kind = SpanKind(ObservedTest("tests/test_it.py::test_it", scheduler))
        for number in (1, 2):
            with kind.around(number):
                wait(scheduler.client.map(neg, range(20), pure=False))
                with span("inner"):
                    wait(scheduler.client.map(abs, range(5), pure=False))
            # Released keys are forgotten with a delay, which must not fall between two reads.
            assert scheduler.control.call(facts.wait_until_idle, 10.0) == 0
        brought = kind.bring(())
        found = msgspec.json.decode(brought.files["span.json"], type=Spans)
        ask: Any = scheduler.client.run_on_scheduler
        names = [each.id for each in found.takes]
        live = [ask(live_span, name) for name in names]
        inner = ask(live_span, found.takes[0].children[0].id)
        yield brought, found, live, inner, ask(merged_span, names)


def test_every_field_is_that_of_the_live_span(spans: Any) -> None:
    brought, found, live, inner, _ = spans
    assert brought.notes == ()
    assert [plain(each) for each in found.takes] == live
    assert plain(found.takes[0].children[0]) == inner
    assert [each.name for each in found.takes] == [("tests/test_it.py::test_it",)] * 2
    assert found.takes[0].children[0].name == ("tests/test_it.py::test_it", "inner")


def test_it_tells_of_work_that_was_done(spans: Any) -> None:
    _, found, _, _, _ = spans
    for each in found.takes:
        assert each.done
        assert each.tasks == 25
        assert each.children[0].tasks == 5
        assert each.enqueued <= each.start <= each.stop
        names = {metric.name for metric in each.cumulative_worker_metrics}
        assert ("execute", "neg", "thread-cpu", "seconds") in names
        assert any("client.map(neg" in frame.code for frames in each.code for frame in frames)


def test_runs_are_merged_as_dask_merges_spans(spans: Any) -> None:
    _, found, _, _, merged = spans
    assert {name: plain(found.merged)[name] for name in merged} == merged
    assert found.merged.tasks == 50


NESTED = """
@pytest.mark.schedprof(rounds=2, evidence="span")
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""


def test_its_tasks_are_those_that_costs_are_divided_by(project: Project) -> None:
    result = project.run_test(NESTED, "--schedprof=cputime")
    result.assert_outcomes(passed=1)
    record = project.result()
    (directory,) = (project.run_directory / "tests").iterdir()
    (evidence,) = record.evidence
    content = (directory / evidence.artifacts[0]).read_bytes()
    found = msgspec.json.decode(content, type=Spans)
    assert found.merged.tasks == record.backends[0].window.tasks == 40


def test_hollow_workers_measure_nothing_and_a_body_without_tasks_has_no_span() -> None:
    with opened("simulated") as scheduler:
        kind = SpanKind(ObservedTest("test_it", scheduler))
        with kind.around(1):
            wait(scheduler.client.map(neg, range(20), pure=False))
        brought = kind.bring(())
        found = msgspec.json.decode(brought.files["span.json"], type=Spans)
        assert found.merged.tasks == 20
        assert brought.notes == (HOLLOW,)


DATAFRAME = """
import dask.dataframe
import pandas

@pytest.mark.schedprof(backend="cputime", evidence="span")
def test_it(schedprof_scheduler):
    frame = pandas.DataFrame({"number": range(8)})
    assert dask.dataframe.from_pandas(frame, npartitions=2).number.sum().compute() == 28
"""


def test_dask_does_not_warn_of_what_the_test_has_not_asked_for(project: Project) -> None:
    result = project.run_test(DATAFRAME, "-W", "error::UserWarning")
    result.assert_outcomes(passed=1)
    (evidence,) = project.result().evidence
    assert not evidence.missing
