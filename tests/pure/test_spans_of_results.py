"""Tests of costs by span: read from files, added up, and shown."""

from __future__ import annotations

from array import array
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.backends.cputime import by_span
from pytest_schedprof.judge.shares import counted_by_span, sampled_by_span, shares_of
from pytest_schedprof.model.limit import Estimate
from pytest_schedprof.model.profile import CostProfile, SampleProfile, SpanCounts, Thread
from pytest_schedprof.model.result import BackendResult, SampledShares, Segment, SpanCost, Window
from pytest_schedprof.report.results import FOR_NONE, OUTSIDE, span_table

TEST = "tests/test_it.py::test_it"
FIRST, INNER = ("first",), ("first", "inner")
STACKS = (("a:run", "distributed.scheduler:f"), ("a:run", "distributed.scheduler:g"))


def profile(samples: list[int], stacks: Any = STACKS) -> SampleProfile:
    return SampleProfile("cputime", "", stacks, (Thread("event loop", array("q", samples)),))


def file_of(names: list[list[str]], samples: list[int], tasks: Any = ()) -> bytes:
    fields = {"names": names, "samples": samples, "tasks": list(tasks)}
    return msgspec.json.encode({"profiles": [], "schedprof_spans": fields})


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=40))
def test_each_sample_keeps_its_stack_and_gets_its_span(pairs: list[tuple[int, int]]) -> None:
    names = [["first"], ["first", "inner"], []]
    content = file_of(names, [span for _, span in pairs], [(["first"], 3)])
    costs = by_span(profile([stack for stack, _ in pairs]), content)
    samples = costs.threads[0].samples
    assert [costs.stacks[i] for i in samples] == [STACKS[stack] for stack, _ in pairs]
    assert [costs.whose[i] for i in samples] == [tuple(names[span]) for _, span in pairs]
    assert len({*zip(costs.stacks, costs.whose, strict=True)}) == len(costs.stacks)
    assert costs.span_tasks == {FIRST: 3}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"{}", file_of([["a"]], [0]), file_of([["a"]], [0, 1]), file_of([["a"]], [0, -1])],
)
def test_file_that_tells_nothing_of_spans_or_nonsense_leaves_the_profile(content: bytes) -> None:
    plain = profile([0, 1])
    assert by_span(plain, content) == plain


def test_shares_are_of_busy_samples() -> None:
    idle = ("asyncio.base_events:BaseEventLoop._run_once", "selectors:EpollSelector.select")
    names = [["first"], []]
    samples = [0] * 30 + [1] * 10 + [2] * 60
    content = file_of(names, [0] * 30 + [1] * 70, [(["first"], 5), (["second"], 2)])
    by_name = by_span(profile(samples, (*STACKS, idle)), content)
    shares = shares_of([[by_name]], drift=0.0)
    costs = sampled_by_span(shares, [by_name])
    assert [(cost.name, cost.tasks) for cost in costs] == [(FIRST, 5), ((), 0), (("second",), 2)]
    first, nobody, second = (cost.share for cost in costs)
    assert first is not None
    assert nobody is not None
    assert second is not None
    assert (first.value, nobody.value, second.value) == (0.75, 0.25, 0.0)
    assert first.low < 0.75 < first.high


def test_counts_of_all_rounds_are_added_by_name() -> None:
    def recorded(*spans: SpanCounts) -> CostProfile:
        return CostProfile("counts", "", {}, spans=spans)

    first = SpanCounts(FIRST, 2, {"calls": 3, "bytecodes": 70})
    inner = SpanCounts(INNER, 1, {"calls": 50, "bytecodes": 500})
    costs = counted_by_span([recorded(first), recorded(first, inner)])
    assert costs == (
        SpanCost(INNER, 1, {"calls": 50, "bytecodes": 500}),
        SpanCost(FIRST, 4, {"calls": 6, "bytecodes": 140}),
    )
    assert counted_by_span([recorded()]) == ()


def result(spans: tuple[SpanCost, ...], shares: SampledShares | None = None) -> BackendResult:
    window = Window(1, (Segment(1.0, 0.5, 100, 600),))
    return BackendResult("any", "", {}, window, shares, None, (), (), spans=spans)


def test_table_of_counts() -> None:
    spans = (
        SpanCost((), 0, {"calls": 10, "bytecodes": 100}),
        SpanCost(INNER, 10, {"calls": 20, "bytecodes": 700}),
        SpanCost(("default",), 5, {"calls": 0, "bytecodes": 200}),
    )
    table = span_table(result(spans), TEST)
    assert table is not None
    assert table.heads == ("calls", "bytecodes", "bytecodes")  # the last has the parts
    assert table.rows == [
        ("first > inner", 10, "2", "70", "70.0%", ""),
        (OUTSIDE, 5, "0", "40", "20.0%", ""),
        (FOR_NONE, 0, "", "", "10.0%", ""),
    ]


def test_table_of_shares_has_the_cpu_time_per_task_of_the_span() -> None:
    shares = SampledShares(50, 50, 0, "blocks", (), ())
    spans = (
        SpanCost((TEST, "first"), 50, share=Estimate(0.6, 0.5, 0.7, 50, 1.0)),
        SpanCost((TEST,), 10, share=Estimate(0.2, 0.1, 0.3, 50, 1.0)),
        SpanCost((), 0, share=Estimate(0.2, 0.1, 0.3, 50, 1.0)),
    )
    table = span_table(result(spans, shares), TEST)
    assert table is not None
    # Half of the samples are busy, so 0.25 s of the 0.5 s of CPU; 60 % of it for 50 tasks.
    assert table.rows[0] == ("first", 50, "3,000 us", "60.0%", "50.0 to 70.0")
    assert [row[0] for row in table.rows] == ["first", OUTSIDE, FOR_NONE]


@pytest.mark.parametrize("names", [[()], [("default",), ()], [(TEST,), ()], []])
def test_test_without_spans_of_its_own_has_no_table(names: list[tuple[str, ...]]) -> None:
    assert (
        span_table(result(tuple(SpanCost(name, 1, {"calls": 1}) for name in names)), TEST) is None
    )
