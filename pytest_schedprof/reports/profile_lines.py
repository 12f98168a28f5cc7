"""Lines of the terminal about one test: what each backend measured of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_schedprof.analysis.recent import Recent, label_of
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.metric import METRICS, readable
from pytest_schedprof.model.result import (
    BackendResult,
    FunctionShare,
    MeasuredCosts,
    Result,
    SampledShares,
)
from pytest_schedprof.presentation.costs import CostColumn, cost_table, whole_costs
from pytest_schedprof.presentation.files import evidence_notes
from pytest_schedprof.presentation.functions import hottest
from pytest_schedprof.presentation.results import headline
from pytest_schedprof.presentation.seeds import SeededTest, outcomes_of, ranges_of
from pytest_schedprof.presentation.spans import SpanTable, span_table
from pytest_schedprof.reports.lines import BARS, Line, sparkline

HOT_FUNCTIONS = 5
"""Functions of each backend that are shown; with more of them, spans are shown too."""

OWNERS_SHOWN = 5
LEAST_SPAN = 0.1
"""Part of a figure that the bars of its series span at least."""

COST_WIDTH = 16
"""Columns of a cost."""

NO_RECENT_RUNS: Recent = {}


def profile_lines(
    result: Result, most: int, recent: Recent = NO_RECENT_RUNS, bars: str = BARS
) -> Iterator[Line]:
    """Return what each backend measured of a test, and which evidence there is.

    Args:
        result: of the test.
        most: functions of each backend.
        recent: series of the last runs in the same directory.
        bars: characters for series, the lowest first.
    """
    yield _title(result)
    for backend in result.backends:
        yield Line(f"  {label_of(backend)}: {headline(backend)}")
        if series := recent.get((result.test_id, label_of(backend))):
            yield Line(f"    {_series(*series, bars)}")
        yield from _backend_lines(backend, most)
        if most > HOT_FUNCTIONS and (spans := span_table(backend, result.test_id)):
            yield from _span_lines(spans)
    yield from _evidence_lines(result.evidence)


def brief_lines(result: Result) -> Iterator[Line]:
    """Return the headline of each backend, and its hottest function."""
    yield _title(result)
    for backend in result.backends:
        yield Line(f"  {label_of(backend)}: {headline(backend)}")
        if backend.shares:
            yield from (_hottest_line(each) for each in hottest(backend.shares.functions, 1))
        if backend.costs:
            yield from _whole_lines(backend.costs, backend.window.tasks)
        yield from _warning_lines(backend)


def seed_lines(test: SeededTest) -> Iterator[Line]:
    """Return how a test ended under its seeds, and which values its figures had."""
    yield Line(f"{test.name}  {outcomes_of(test)}", {"bold": True})
    for label, ranges in ranges_of(test).items():
        yield Line(f"  {label}: {', '.join(ranges)}")


def _title(result: Result) -> Line:
    return Line(f"{result.test_id}  {result.outcome}", {"bold": True})


def _hottest_line(found: FunctionShare) -> Line:
    share, function = found.share, found.function
    return Line(f"    {share.value:.1%} ({share.low:.1%} - {share.high:.1%}) in {function}")


def _backend_lines(backend: BackendResult, most: int) -> Iterator[Line]:
    if backend.shares:
        yield from _share_lines(backend.shares, most)
    if backend.costs:
        yield from cost_lines(backend.costs, backend.window.tasks, most)
    yield from _warning_lines(backend)


def _warning_lines(backend: BackendResult) -> Iterator[Line]:
    return (Line(f"  warning: {text}", {"yellow": True}) for text in backend.warnings)


def _span_lines(table: SpanTable) -> Iterator[Line]:
    """Return what belongs to which spans of a test."""
    width = max(len(row.name) for row in table.rows)
    heads = _right_aligned(f"{column}/task" for column in table.columns)
    yield Line(f"  {'spans':<{width}}   tasks {heads}  part of {table.of}", {"light": True})
    for row in table.rows:
        part = f"{row.part} ({row.bounds})" if row.bounds else row.part
        amounts = _right_aligned(row.amounts)
        yield Line(f"  {row.name:<{width}} {row.tasks or '':>7} {amounts}  {part}")


def _evidence_lines(evidence: Sequence[Evidence]) -> Iterator[Line]:
    if kept := [each.kind for each in evidence if not each.missing]:
        yield Line(f"  evidence: {', '.join(kept)}")
    yield from (Line(f"  note: {text}", {"yellow": True}) for text in evidence_notes(evidence))


def _series(metric: str, values: Sequence[float], bars: str) -> str:
    first, last = (readable(value, METRICS[metric]) for value in (values[0], values[-1]))
    return f"{metric} {sparkline(values, bars, LEAST_SPAN)} {first} -> {last} in {len(values)} runs"


def _share_lines(shares: SampledShares, most: int) -> Iterator[Line]:
    hot = hottest(shares.functions, most)
    if not hot:
        return
    width = _owner_width(each.owner for each in hot)
    head = f"    share  (95% bounds)        self  {'owner':<{width}}  function"
    yield Line(head, {"light": True})
    for each in hot:
        bounds = f"({each.share.low:.1%} - {each.share.high:.1%})"
        yield Line(
            f"  {each.share.value:>7.1%}  {bounds:<17} {each.self_share.value:>6.1%}  "
            f"{each.owner:<{width}}  {each.function}"
        )
    owners = shares.owners[:OWNERS_SHOWN]
    yield Line("  owners: " + ", ".join(f"{o.owner} {o.share.value:.0%}" for o in owners))


def cost_lines(costs: MeasuredCosts, tasks: int, most: int) -> Iterator[Line]:
    """Return a table of the most expensive functions, and what the whole scheduler cost."""
    table = cost_table(costs, tasks, most)
    if table.columns:
        width = _owner_width(row.owner for row in table.rows)
        heads = _right_aligned(each.head("/task") for each in table.columns)
        yield Line(f"  {heads}  {'owner':<{width}}  function", {"light": True})
        for row in table.rows:
            amounts = _right_aligned(row.amounts)
            yield Line(f"  {amounts}  {row.owner:<{width}}  {row.name}")
    yield from _whole_lines(costs, tasks)


def _whole_lines(costs: MeasuredCosts, tasks: int) -> Iterator[Line]:
    if whole := [_whole(*each) for each in whole_costs(costs, tasks)]:
        yield Line("  whole scheduler: " + ", ".join(whole))


def _whole(column: CostColumn, text: str) -> str:
    return f"{column.metric} {text}" + ("" if column.row.is_peak else "/task")


def _owner_width(owners: Iterable[str]) -> int:
    return max(map(len, ("owner", *owners)))


def _right_aligned(cells: Iterable[str]) -> str:
    return "".join(f"{cell:>{COST_WIDTH}}" for cell in cells)
