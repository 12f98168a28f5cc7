"""Tests of a test's spans, against those of the live scheduler."""

from __future__ import annotations

import contextvars
from functools import partial
from operator import neg, pos
from typing import Any

import msgspec
import pytest
from dask.delayed import delayed
from distributed import Scheduler, span, wait
from support import Project
from witness import opened

from pytest_schedprof.agent import facts
from pytest_schedprof.evidence.contract import ObservedTest
from pytest_schedprof.evidence.span import HOLLOW, SpanKind, ignored_here
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
        "parent": found.parent.id if found.parent else "",
        "annotation": found.annotation,
        "metadata": found.metadata and found.metadata["collections"],
        "groups": {group.name: dict(group.states) for group in found.groups},
    }


def merged_of(which: str, names: list[str], dask_scheduler: Scheduler) -> dict[str, Any]:
    """What dask's own searches and sums return: of `merge_all`, or of these tags."""
    extension = dask_scheduler.extensions["spans"]
    merge = {"all": extension.merge_all, "tags": extension.merge_by_tags}[which]
    return {field: getattr(merge(*names), field) for field in FIELDS}


def found_by_tags(tags: list[str], dask_scheduler: Scheduler) -> list[str]:
    return [each.id for each in dask_scheduler.extensions["spans"].find_by_tags(*tags)]


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
        "parent": found.parent,
        "annotation": found.annotation and msgspec.to_builtins(found.annotation),
        "metadata": list(found.metadata),
        "groups": {group.name: group.states for group in found.groups},
    }


@pytest.fixture(scope="module")
def spans() -> Any:
    """Evidence of two body runs, with what the scheduler itself reported right after them."""
    with opened("local") as scheduler:
        kind = SpanKind(ObservedTest("tests/test_it.py::test_it", scheduler))
        for number in (1, 2):
            with kind.around(number):
                wait(scheduler.client.map(neg, range(20), pure=False))
                with span("inner", "most"):
                    wait(scheduler.client.map(abs, range(5), pure=False))
                with span("most"), span("inner"):
                    wait(delayed(sum)([1, 2], dask_key_name=f"sum-{number}").persist())
                with span("other"):
                    wait(scheduler.client.map(pos, range(3), pure=False))
            # Released keys are forgotten with a delay, which must not fall between two reads.
            assert scheduler.control.call(facts.wait_until_idle, 10.0) == 0
        brought = kind.bring(())
        found = msgspec.json.decode(brought.files["span.json"], type=Spans)
        ask: Any = scheduler.client.run_on_scheduler
        names = [each.id for each in found.takes]
        live = [ask(live_span, name) for name in names]
        inner = ask(live_span, found.takes[0].children[0].children[0].id)
        yield brought, found, live, inner, ask(merged_span, names)


@pytest.fixture(scope="module")
def searches() -> Any:
    """What the file has of searches and sums, beside what dask's own return."""
    with opened("local") as scheduler:
        wait(scheduler.client.submit(str, 0, pure=False))  # before the test, in a default span
        kind = SpanKind(ObservedTest("tests/test_it.py::test_it", scheduler))
        for _ in range(2):
            with kind.around(1):
                with span("inner", "most"):
                    wait(scheduler.client.map(abs, range(5), pure=False))
                with span("most"), span("inner"):
                    wait(scheduler.client.map(neg, range(4), pure=False))
                with span("other"):
                    wait(scheduler.client.map(pos, range(3), pure=False))
                # Annotations are of the context: this is how a task comes from elsewhere.
                submit = partial(scheduler.client.submit, str, 1, pure=False)
                wait(contextvars.Context().run(submit))
            assert scheduler.control.call(facts.wait_until_idle, 10.0) == 0
        found = msgspec.json.decode(kind.bring(()).files["span.json"], type=Spans)
        yield found, scheduler.client.run_on_scheduler


def in_short(found: Span) -> dict[str, Any]:
    return {field: getattr(found, field) for field in FIELDS}


def test_sums_by_tag_are_those_of_dask(searches: Any) -> None:
    found, ask = searches
    assert set(found.tags) == {"inner", "most", "other"}
    for tag, each in found.tags.items():
        assert in_short(each) == ask(merged_of, "tags", [tag])
    assert {tag: each.tasks for tag, each in found.tags.items()} == {
        "inner": 18,
        "most": 18,
        "other": 6,
    }


@pytest.mark.parametrize("tags", [["inner"], ["most"], ["inner", "other"], ["nowhere"]])
def test_spans_are_found_by_tags_as_by_dask(searches: Any, tags: list[str]) -> None:
    found, ask = searches
    assert {each.id for each in found.find_by_tags(*tags)} == set(ask(found_by_tags, tags))


def test_tasks_from_elsewhere_are_in_the_default_span_and_in_the_sum_of_all(searches: Any) -> None:
    found, ask = searches
    assert [each.name for each in found.default] == [("default",)] * 2
    assert [each.annotation for each in found.default] == [None, None]
    assert sum(each.tasks for each in found.default) == 2
    assert found.all.tasks == found.merged.tasks + 2 == 26
    assert sum(ask(merged_of, "all", [])["states"].values()) == 27  # with the one before the test


def test_every_field_is_that_of_the_live_span(spans: Any) -> None:
    brought, found, live, inner, _ = spans
    assert brought.notes == ()
    assert [plain(each) for each in found.takes] == live
    assert plain(found.takes[0].children[0].children[0]) == inner
    assert list(inner["annotation"]["ids"][-3:-1]) == [found.takes[0].id, inner["parent"]]
    assert [each.name for each in found.takes] == [("tests/test_it.py::test_it",)] * 2
    assert found.takes[0].children[0].name == ("tests/test_it.py::test_it", "inner")


def test_it_tells_of_work_that_was_done(spans: Any) -> None:
    _, found, _, _, _ = spans
    for each in found.takes:
        assert each.done
        assert each.tasks == 29
        assert [child.tasks for child in each.children] == [5, 1, 3]
        (summed,) = each.children[1].children
        (collection,) = summed.metadata
        assert collection["type"].endswith("Delayed")
        assert each.enqueued <= each.start <= each.stop
        names = {metric.name for metric in each.cumulative_worker_metrics}
        assert ("execute", "neg", "thread-cpu", "seconds") in names
        assert any("client.map(neg" in frame.code for frames in each.code for frame in frames)


def test_runs_are_merged_as_dask_merges_spans(spans: Any) -> None:
    _, found, _, _, merged = spans
    assert {name: plain(found.merged)[name] for name in merged} == merged
    assert found.merged.tasks == 58


DASKS = ["runpy", r".*py\.?test.*", "pycharm"]


@pytest.mark.parametrize(
    ("directory", "ignored"),
    [
        ("/home/me/project", DASKS),
        ("/home/me/pytest-schedprof", ["runpy", "pycharm"]),
        ("/home/pytest/tests", ["runpy", "pycharm"]),
        ("C:\\pycharm\\project", ["runpy", r".*py\.?test.*"]),
    ],
)
def test_code_of_a_checkout_that_dask_takes_for_pytest_is_told(
    directory: str, ignored: list[str]
) -> None:
    assert ignored_here(DASKS, directory) == ignored


NESTED = """
@pytest.mark.schedprof(rounds=2, evidence="span")
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""


@pytest.mark.slow
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


@pytest.mark.slow
def test_dask_does_not_warn_of_what_the_test_has_not_asked_for(project: Project) -> None:
    result = project.run_test(DATAFRAME, "-W", "error::UserWarning")
    result.assert_outcomes(passed=1)
    (evidence,) = project.result().evidence
    assert not evidence.missing
