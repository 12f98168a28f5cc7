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
from pytest_schedprof.evidence.contract import Brought, ObservedTest
from pytest_schedprof.evidence.span import SpanKind, ignored_here
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


def fields_of(span: Any) -> dict[str, Any]:
    """What a span has, of the live scheduler or of the file."""
    return {field: getattr(span, field) for field in FIELDS}


def live_span(name: str, dask_scheduler: Scheduler) -> dict[str, Any]:
    """Values of the live span's own properties."""
    live = dask_scheduler.extensions["spans"].spans[name]
    return {
        **fields_of(live),
        "nthreads_intervals": live.nthreads_intervals,
        "code": [[frame.code for frame in frames] for frames in live.code],
        "metrics": {tuple(k): v for k, v in live.cumulative_worker_metrics.items()},
        "children": [child.id for child in live.children],
        "parent": live.parent.id if live.parent else "",
        "annotation": live.annotation,
        "metadata": live.metadata and live.metadata["collections"],
        "groups": {group.name: dict(group.states) for group in live.groups},
    }


def merged_of(which: str, names: list[str], dask_scheduler: Scheduler) -> dict[str, Any]:
    """What dask's own searches and sums return: of `merge_all`, or of these tags."""
    extension = dask_scheduler.extensions["spans"]
    merge = {"all": extension.merge_all, "tags": extension.merge_by_tags}[which]
    return fields_of(merge(*names))


def by_tags(tags: list[str], dask_scheduler: Scheduler) -> list[str]:
    return [span.id for span in dask_scheduler.extensions["spans"].find_by_tags(*tags)]


def merged_span(names: list[str], dask_scheduler: Scheduler) -> dict[str, Any]:
    spans = [dask_scheduler.extensions["spans"].spans[name] for name in names]
    merged = type(spans[0]).merge(*spans)
    return {
        **fields_of(merged),
        "nthreads_intervals": merged.nthreads_intervals,
        "metrics": {tuple(k): v for k, v in merged.cumulative_worker_metrics.items()},
    }


def plain(span: Span) -> dict[str, Any]:
    return {
        **fields_of(span),
        "nthreads_intervals": list(span.nthreads_intervals),
        "code": [[frame.code for frame in frames] for frames in span.code],
        "metrics": {metric.name: metric.value for metric in span.cumulative_worker_metrics},
        "children": [child.id for child in span.children],
        "parent": span.parent,
        "annotation": span.annotation and msgspec.to_builtins(span.annotation),
        "metadata": list(span.metadata),
        "groups": {group.name: group.states for group in span.groups},
    }


def spans_in(brought: Brought) -> Spans:
    return msgspec.json.decode(brought.files["span.json"], type=Spans)


@pytest.fixture(scope="module")
def evidence() -> Any:
    """What the file has of two body runs, and who asks the scheduler for the same."""
    with opened("local") as scheduler:
        wait(scheduler.client.submit(str, 0, pure=False))  # before the test, in a default span
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
                # Annotations are of the context: this is how a task comes from elsewhere.
                submit = partial(scheduler.client.submit, str, 1, pure=False)
                wait(contextvars.Context().run(submit))
            # Released keys are forgotten with a delay, which must not fall between two reads.
            assert scheduler.control.call(facts.wait_until_idle, 10.0) == 0
        brought = kind.bring(())
        assert brought.notes == ()
        yield spans_in(brought), scheduler.client.run_on_scheduler


def test_sums_and_searches_by_tag_are_those_of_dask(evidence: Any) -> None:
    spans, ask = evidence
    assert {tag: summed.tasks for tag, summed in spans.tags.items()} == {
        "inner": 12,
        "most": 12,
        "other": 6,
    }
    for tag, summed in spans.tags.items():
        assert fields_of(summed) == ask(merged_of, "tags", [tag])
    for tags in (["inner"], ["most"], ["inner", "other"], ["nowhere"]):
        assert {match.id for match in spans.find_by_tags(*tags)} == set(ask(by_tags, tags))


def test_tasks_from_elsewhere_are_in_the_default_span_and_in_the_sum_of_all(evidence: Any) -> None:
    spans, ask = evidence
    assert [default.name for default in spans.default] == [("default",)] * 2
    assert [default.annotation for default in spans.default] == [None, None]
    assert sum(default.tasks for default in spans.default) == 2
    assert spans.all.tasks == spans.merged.tasks + 2 == 60
    assert sum(ask(merged_of, "all", [])["states"].values()) == 61  # with the one before the test


def test_every_field_is_that_of_the_live_span_and_tells_of_work_that_was_done(
    evidence: Any,
) -> None:
    spans, ask = evidence
    names = [take.id for take in spans.takes]
    assert [plain(take) for take in spans.takes] == [ask(live_span, name) for name in names]
    first = spans.takes[0]
    inner = ask(live_span, first.children[0].children[0].id)
    assert plain(first.children[0].children[0]) == inner
    assert list(inner["annotation"]["ids"][-3:-1]) == [first.id, inner["parent"]]
    assert first.children[0].name == ("tests/test_it.py::test_it", "inner")
    merged = ask(merged_span, names)
    assert {name: plain(spans.merged)[name] for name in merged} == merged
    for take in spans.takes:
        assert take.name == ("tests/test_it.py::test_it",)
        assert take.done
        assert take.tasks == 29
        assert [child.tasks for child in take.children] == [5, 1, 3]
        (summed,) = take.children[1].children
        (collection,) = summed.metadata
        assert collection["type"].endswith("Delayed")
        assert take.enqueued <= take.start <= take.stop
        metrics = {metric.name for metric in take.cumulative_worker_metrics}
        assert ("execute", "neg", "thread-cpu", "seconds") in metrics
        assert any("client.map(neg" in frame.code for frames in take.code for frame in frames)


def test_a_span_within_one_that_is_open_around_several_tests_is_found() -> None:
    with opened("local") as scheduler, span("suite"):
        wait(scheduler.client.submit(str, 0, pure=False))  # of the test before
        kind = SpanKind(ObservedTest("tests/test_it.py::test_it", scheduler))
        with kind.around(1):
            wait(scheduler.client.map(neg, range(15), pure=False))
            with span("suite"):
                wait(scheduler.client.map(abs, range(5), pure=False))
        spans = spans_in(kind.bring(()))
    assert [take.name for take in spans.takes] == [("suite", "tests/test_it.py::test_it")]
    assert {tag: summed.tasks for tag, summed in spans.tags.items()} == {"suite": 5}
    assert spans.all
    assert spans.all.tasks == spans.merged.tasks == 20


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


BODY = """
import dask.dataframe
import pandas

@pytest.mark.schedprof(rounds=2)
def test_tasks(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))

def test_frame(schedprof_scheduler):
    frame = pandas.DataFrame({"number": range(8)})
    assert dask.dataframe.from_pandas(frame, npartitions=2).number.sum().compute() == 28
"""


@pytest.mark.slow
def test_its_tasks_are_those_of_costs_and_dask_warns_of_nothing(project: Project) -> None:
    options = ("--schedprof=cputime", "--schedprof-evidence=span", "-W", "error::UserWarning")
    project.run_test(BODY, *options).assert_outcomes(passed=2)
    records = project.results()
    assert not any(piece.missing for record in records.values() for piece in record.evidence)
    (path,) = project.run_directory.glob("tests/*test_tasks*/span.json")
    spans = msgspec.json.decode(path.read_bytes(), type=Spans)
    assert spans.merged.tasks == records["test_tasks"].backends[0].window.tasks == 40
