"""Limits and their verdicts: as rows, as sentences and as counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_schedprof.judge.limits import parsed_limit
from pytest_schedprof.judge.owners import NOT_SCHEDULER, PLUMBING
from pytest_schedprof.judge.shares import BusyTime, wall_of
from pytest_schedprof.model.backend import KnownBackends, rank_of
from pytest_schedprof.model.limit import Estimate, Finding, Limit, LimitResult, Verdict
from pytest_schedprof.model.metric import (
    CLIENT_BYTECODES,
    HELD,
    INCLUSIVE,
    METRICS,
    PERCENT,
    TIME,
    Metric,
    readable,
)
from pytest_schedprof.model.result import (
    BackendResult,
    FunctionCost,
    FunctionShare,
    MeasuredCosts,
    OwnerShare,
    Result,
    SampledShares,
)
from pytest_schedprof.report.words import (
    CLIENT,
    WHOLE_NAME,
    Interval,
    Name,
    bounds_of,
    counted,
    interval_of,
    micros,
    name_of,
    percent,
)

LIMIT_WORDS = {Verdict.PASS: "passed", Verdict.FAIL: "broken", Verdict.INCONCLUSIVE: "inconclusive"}

NOT_CHOSEN = "a backend or baseline that was not chosen"
"""The missing part of a skipped limit, in messages."""

GRAVEST_FIRST = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)

SHOWN_OF_LIMIT = 5
"""Functions that a page shows of a limit on many."""

MARGIN = 1.15
"""Factor of the scale beyond the farthest mark, so that no mark is at the edge."""


class LimitRow(NamedTuple):
    """A limit, or one of the functions that it names."""

    limit: str
    """Empty in the rows after a limit's first."""
    verdict: str
    subject: str
    amount: str
    bounds: str
    grounds: str
    """The number of samples or tasks behind the figures, or why there are no figures."""
    backend: str
    """The backend, or the kind of evidence, that measured it."""
    interval: Interval | None


def limit_words(results: Sequence[Result]) -> list[str]:
    """Return how many limits came to each verdict, without the verdicts that none came to."""
    counts = Counter(limit.verdict for result in results for limit in result.limits)
    return [f"{counts[each]} {word}" for each, word in LIMIT_WORDS.items() if counts[each]]


def skipped_words(results: Sequence[Result]) -> str:
    """Return how many limits could not be judged, and why; empty if there are none."""
    skipped = sum(len(result.unjudged) for result in results)
    need = "needs" if skipped == 1 else "need"
    return f"{skipped} skipped ({need} {NOT_CHOSEN})" if skipped else ""


def describe(result: LimitResult) -> str:
    """Return one line: limit, value, bounds, and the number of samples or tasks behind them."""
    limit = parsed_limit(result)
    if not (result.findings and limit):
        return f"{result.limit}: {_no_figures(result)}"
    finding = result.findings[0]
    others = sum(each.verdict is result.verdict for each in result.findings[1:])
    is_told = others and result.verdict is not Verdict.PASS
    more = f", and {counted(others, f'more {_named(limit)}')}" if is_told else ""
    return f"{result.limit}: {_fact(finding, limit)}{more}"


def _named(limit: Limit) -> str:
    """Return what the limit's pattern names."""
    return METRICS[limit.measured].named or "function"


def _no_figures(result: LimitResult) -> str:
    return result.note or "this release cannot read the limit"


def _fact(finding: Finding, limit: Limit) -> str:
    metric, estimate = METRICS[limit.metric], finding.estimate
    value, low, high = (
        readable(amount, metric) for amount in (estimate.value, estimate.low, estimate.high)
    )
    subject = finding.subject or (CLIENT if limit.measured == CLIENT_BYTECODES else WHOLE_NAME)
    if limit.of:
        return (
            f"the cost of {subject} grows as scale ** {value} "
            f"(at least {low}, at most {high})" + _over(estimate.samples)
        )
    bounds = "" if metric.is_exact else f" (at least {low}, at most {high})"
    bounds += _before(finding, metric)
    if metric.units is PERCENT and metric.is_sampled:
        return f"{subject} holds {value}{bounds} of {estimate.samples} busy samples"
    noun = f" {metric.noun}" if metric.noun else ""
    if metric.evidence:
        subject = finding.subject or metric.spelling or limit.metric
        return f"{subject} is {value}{noun}{bounds} in {counted(estimate.samples, 'run')}"
    if metric.is_peak:
        unit = noun if limit.metric in HELD or metric.units is TIME else ""
        return f"{metric.spelling or limit.metric} of {subject} is {value}{unit}{bounds}"
    unit = "per task" if estimate.samples else "a round"
    return f"{subject} takes {value}{noun}{bounds} {unit}{_over(estimate.samples)}"


def _over(tasks: int) -> str:
    return f" over {tasks} tasks" if tasks else ""


def _before(finding: Finding, metric: Metric) -> str:
    if finding.before is None:
        return ""
    return f" (before: {readable(finding.before.value, metric)})"


def limit_rows(record: Result) -> tuple[LimitRow, ...]:
    """Return the limits of all backends and of evidence, broken ones first."""
    found = [(each.backend, limit) for each in record.backends for limit in each.limits]
    found += [(each.kind, limit) for each in record.evidence for limit in each.limits]
    found.sort(key=lambda pair: GRAVEST_FIRST.index(pair[1].verdict))
    return tuple(row for name, limit in found for row in _rows(name, limit))


def _rows(backend: str, result: LimitResult) -> Iterator[LimitRow]:
    limit = parsed_limit(result)
    if not (result.findings and limit):
        reason = _no_figures(result)
        yield LimitRow(result.limit, result.verdict.value, "", "", "", reason, backend, None)
        return
    case = _Case(backend, result, limit)
    for number, finding in enumerate(result.findings[:SHOWN_OF_LIMIT]):
        yield case.row(finding, is_first=number == 0)


@dataclass(frozen=True, slots=True)
class _Case:
    backend: str
    result: LimitResult
    limit: Limit

    @property
    def metric(self) -> Metric:
        return METRICS[self.limit.metric]

    def row(self, finding: Finding, *, is_first: bool) -> LimitRow:
        estimate = finding.estimate
        before = finding.before.value if finding.before else None
        edge = self.limit.bound + self.limit.factor * (before or 0.0)
        top = MARGIN * max(edge, estimate.high, before or 0.0)
        return LimitRow(
            self.result.limit if is_first else "",
            finding.verdict.value,
            finding.subject,
            readable(estimate.value, self.metric),
            bounds_of(estimate, self.limit.metric),
            self._grounds(finding, is_first),
            self.backend,
            interval_of(estimate, top, edge, before),
        )

    def _grounds(self, finding: Finding, is_first: bool) -> str:
        is_of_samples = self.metric.is_sampled and self.metric.units is PERCENT
        unit = "busy sample" if is_of_samples else "run" if self.limit.evidence else "task"
        words = [counted(finding.estimate.samples, unit)]
        if finding.before:
            words.append(f"before: {readable(finding.before.value, self.metric)}")
        more = len(self.result.findings) - SHOWN_OF_LIMIT
        if is_first and more > 0:
            words.append(counted(more, f"more {_named(self.limit)}"))
        return "; ".join(words)


class CostColumn(NamedTuple):
    """A metric in a table of costs."""

    metric: str

    @property
    def row(self) -> Metric:
        """The metric's units."""
        return METRICS[INCLUSIVE.get(self.metric, self.metric)]

    def head(self, per_task: str) -> str:
        """Return the heading; `per_task` is appended unless the metric is a peak."""
        title = "self" if self.metric in INCLUSIVE else self.row.of_steps or self.metric
        return title if self.row.is_peak else f"{title}{per_task}"

    def of_whole(self, per_task: str) -> str:
        """Return the name of the metric of the whole scheduler, with `per_task` likewise."""
        return self.metric if self.row.is_peak else f"{self.metric}{per_task}"

    def text(self, amount: float, tasks: int) -> str:
        """Return an amount of a whole window: per task, unless it is a peak."""
        return readable(amount if self.row.is_peak else amount / tasks, self.row)


class CostRow(NamedTuple):
    """A function and its amounts, one for each column."""

    name: Name
    owner: str
    amounts: tuple[str, ...]


class CostTable(NamedTuple):
    """The most expensive functions."""

    columns: tuple[CostColumn, ...]
    rows: tuple[CostRow, ...]
    left_out: int


class WholeCost(NamedTuple):
    """A cost of the scheduler as a whole."""

    column: CostColumn
    text: str


def dearest(functions: Sequence[FunctionCost], most: int) -> list[FunctionCost]:
    """Return the scheduler's most expensive functions; the record has them in that order."""
    return [each for each in functions if each.owner not in NOT_SCHEDULER][:most]


def cost_table(
    costs: MeasuredCosts, tasks: int, most: int, *, own_seconds: bool = False
) -> CostTable:
    """Return the most expensive functions, with a column for each metric that one of them has.

    Args:
        costs: what a backend measured.
        tasks: processed in its window; without any only peaks are shown.
        most: how many functions to show.
        own_seconds: whether to show the seconds without callees, too.
    """
    shown = dearest(costs.functions, most)
    columns = tuple(_columns(shown, tasks, own_seconds=own_seconds))
    rows = tuple(_row(each, columns, tasks) for each in shown)
    return CostTable(columns, rows, len(costs.functions) - len(shown))


def _columns(
    shown: Sequence[FunctionCost], tasks: int, *, own_seconds: bool
) -> Iterator[CostColumn]:
    measured = {name for each in shown for name in each.total}
    for name in (*METRICS, *(INCLUSIVE if own_seconds else ())):
        column = CostColumn(name)
        if name in measured and (tasks or column.row.is_peak) and name != CLIENT_BYTECODES:
            yield column


def _row(found: FunctionCost, columns: Sequence[CostColumn], tasks: int) -> CostRow:
    amounts = tuple(each.text(found.total.get(each.metric, 0.0), tasks) for each in columns)
    return CostRow(name_of(found.function), found.owner, amounts)


def whole_costs(costs: MeasuredCosts, tasks: int) -> Iterator[WholeCost]:
    """Return what the scheduler as a whole cost.

    CPU time is left out: backends that measure costs slow the scheduler down.
    """
    for name, amount in costs.whole.items():
        if name in METRICS and not METRICS[name].is_sampled and (tasks or METRICS[name].is_peak):
            column = CostColumn(name)
            yield WholeCost(column, column.text(amount, tasks))


NO_TIME = BusyTime(0.0, 0.0)

LISTED = 25
"""Functions that a test's page lists: the flame graph has all."""

LISTED_OF_RUN = 12
"""Functions that a run's page lists."""


class OwnerRow(NamedTuple):
    """An owner and its share of the scheduler's busy time."""

    owner: str
    part: float
    """The share as a fraction of one."""
    share: str
    bounds: str
    cost: str
    cost_bounds: str
    interval: Interval


class FunctionRow(NamedTuple):
    """A function and its share of the scheduler's busy time."""

    name: Name
    owner: str
    share: str
    bounds: str
    own: str
    cost: str
    cost_bounds: str
    interval: Interval


class FunctionTable(NamedTuple):
    """The hottest functions, and how many more there are."""

    rows: tuple[FunctionRow, ...]
    left_out: int


def hottest(functions: Sequence[FunctionShare], most: int) -> list[FunctionShare]:
    """Return the functions with the largest shares; plumbing is ranked by its own time."""

    def heat(each: FunctionShare) -> float:
        return (each.self_share if each.owner in PLUMBING else each.share).value

    return [each for each in sorted(functions, key=heat, reverse=True) if heat(each)][:most]


def sampling(result: Result, known: KnownBackends) -> BackendResult | None:
    """Return the most recommended backend that has busy samples; None if there is none."""
    found = [each for each in result.backends if each.shares and each.shares.busy_samples]
    return min(found, key=lambda each: rank_of(each.backend, known), default=None)


def micros_per_sample(backend: BackendResult) -> float:
    """Return the CPU time per task that a busy sample stands for; 0 where there were no tasks."""
    shares, cost = backend.shares, backend.window.cpu_us_per_task
    if shares is None or cost is None:
        return 0.0
    return round(cost * shares.busy_part / max(1, shares.busy_samples), 6)


def owner_rows(backend: BackendResult) -> tuple[OwnerRow, ...]:
    """Return the owners in the order of the record, which is by share."""
    if backend.shares is None or not backend.shares.owners:
        return ()
    owners = backend.shares.owners
    top = max(each.share.high for each in owners)
    whole = busy_time(backend)
    return tuple(_owner_row(each, top, whole) for each in owners)


def _owner_row(found: OwnerShare, top: float, whole: BusyTime) -> OwnerRow:
    return OwnerRow(
        found.owner,
        found.share.value,
        percent(found.share.value),
        bounds_of(found.share),
        *costs_of(found.share, whole),
        interval_of(found.share, top),
    )


def function_table(backend: BackendResult) -> FunctionTable:
    """Return the hottest functions of one backend; no rows for a backend without samples."""
    shares = backend.shares
    if shares is None:
        return FunctionTable((), 0)
    shown = hottest(shares.functions, LISTED)
    rows = _function_rows(shown, busy_time(backend))
    return FunctionTable(rows, len(shares.functions) - len(shown))


def busy_time(backend: BackendResult) -> BusyTime:
    """Return what all busy samples of a backend stand for."""
    if (shares := backend.shares) is None:
        return NO_TIME
    cpu = micros_per_sample(backend) * shares.busy_samples
    return BusyTime(
        cpu, wall_of(shares.busy_samples, shares.sample_seconds, backend.window.tasks) if cpu else 0
    )


def costs_of(share: Estimate, whole: BusyTime) -> tuple[str, str]:
    """Return the CPU time per task that a share is, and its bounds.

    The CPU time of the whole is measured: its error is small beside that of a share of samples.
    """
    low, high = map(micros, whole.bounds(share))
    bounds = f"{low or '0 us'} to {high}" if share.low < share.high and high else ""
    return micros(share.value * whole.cpu), bounds


def _function_rows(functions: Sequence[FunctionShare], whole: BusyTime) -> tuple[FunctionRow, ...]:
    top = max((each.share.high for each in functions), default=1.0)
    return tuple(_function_row(each, top, whole) for each in functions)


def _function_row(found: FunctionShare, top: float, whole: BusyTime) -> FunctionRow:
    return FunctionRow(
        name_of(found.function),
        found.owner,
        percent(found.share.value),
        bounds_of(found.share),
        percent(found.self_share.value),
        *costs_of(found.share, whole),
        interval_of(found.share, top),
    )


def owners_of_run(backends: Iterable[BackendResult]) -> tuple[OwnerRow, ...]:
    """Return the owners of several tests together, each test weighted by its samples."""
    sums: defaultdict[str, float] = defaultdict(float)
    for shares in _shares(backends):
        for each in shares.owners:
            sums[each.owner] += each.share.value * shares.busy_samples
    total = sum(sums.values())
    parts = sorted(((count / total, owner) for owner, count in sums.items()), reverse=True)
    return tuple(
        OwnerRow(owner, part, percent(part), "", "", "", interval_of(_exactly(part), 1.0))
        for part, owner in parts
    )


def functions_of_run(backends: Iterable[BackendResult]) -> tuple[FunctionRow, ...]:
    """Return the hottest functions of several tests together, weighted by their samples."""
    shares = list(_shares(backends))
    total = sum(each.busy_samples for each in shares)
    held: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for each in shares:
        for found in each.functions:
            sums = held[found.function, found.owner]
            sums[0] += found.share.value * each.busy_samples / total
            sums[1] += found.self_share.value * each.busy_samples / total
    functions = [
        FunctionShare(function, owner, _exactly(share), _exactly(own))
        for (function, owner), (share, own) in held.items()
    ]
    return _function_rows(hottest(functions, LISTED_OF_RUN), NO_TIME)


def _shares(backends: Iterable[BackendResult]) -> Iterator[SampledShares]:
    return (backend.shares for backend in backends if backend.shares)


def _exactly(share: float) -> Estimate:
    """Return a share without bounds: shares of different tests together have none."""
    return Estimate(share, share, share, 0, 0.0)
