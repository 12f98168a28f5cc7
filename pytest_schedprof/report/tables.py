"""Limits and their verdicts: as rows, as sentences and as counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from pytest_schedprof.judge.costs import exactly
from pytest_schedprof.judge.limits import parsed_limit
from pytest_schedprof.judge.owners import NOT_SCHEDULER, PLUMBING
from pytest_schedprof.judge.shares import BusyTime, wall_of
from pytest_schedprof.model.backend import KnownBackends, rank_of
from pytest_schedprof.model.limit import (
    GRAVEST_FIRST,
    Estimate,
    Finding,
    Limit,
    LimitResult,
    Verdict,
)
from pytest_schedprof.model.metric import (
    BYTECODES,
    CALLS,
    CLIENT_BYTECODES,
    INCLUSIVE,
    METRICS,
    PERCENT,
    TIME,
    Metric,
    readable,
)
from pytest_schedprof.model.result import (
    SIDES_IN_TURNS,
    BackendResult,
    FunctionCost,
    FunctionShare,
    MeasuredCosts,
    OwnerShare,
    Result,
    SampledShares,
)
from pytest_schedprof.report.words import (
    Fact,
    Interval,
    counted,
    interval_of,
    micros,
    name_of,
    name_of_whole,
)

LIMIT_WORDS = {Verdict.PASS: "passed", Verdict.FAIL: "broken", Verdict.INCONCLUSIVE: "inconclusive"}

SHOWN_OF_LIMIT = 5
"""Functions that a page shows of a limit on many."""

MARGIN = 1.15
"""Factor of the scale beyond the farthest mark, so that no mark is at the edge."""


def limit_words(results: Sequence[Result]) -> list[str]:
    """Return how many limits came to each verdict, without the verdicts that none came to."""
    counts = Counter(limit.verdict for result in results for limit in result.limits)
    return [f"{counts[verdict]} {word}" for verdict, word in LIMIT_WORDS.items() if counts[verdict]]


def skipped_words(results: Sequence[Result]) -> str:
    """Return how many limits could not be judged, and why; empty if there are none."""
    skipped = sum(len(result.unjudged) for result in results)
    if not skipped:
        return ""
    need = "needs" if skipped == 1 else "need"
    return f"{skipped} skipped ({need} a backend or baseline that was not chosen)"


def describe(result: LimitResult) -> str:
    """Return one line: limit, value, bounds, and the number of samples or tasks behind them."""
    limit = parsed_limit(result)
    if not (result.findings and limit):
        return f"{result.limit}: {no_figures(result)}"
    finding = result.findings[0]
    others = sum(other.verdict is result.verdict for other in result.findings[1:])
    is_told = others and result.verdict is not Verdict.PASS
    more = f", and {counted(others, f'more {_named(limit)}')}" if is_told else ""
    return f"{result.limit}: {_fact(finding, limit)}{more}"


def _named(limit: Limit) -> str:
    """Return what the limit's pattern names."""
    return METRICS[limit.measured].named or "function"


def no_figures(result: LimitResult) -> str:
    """Return why there are no figures."""
    return result.note or "this release cannot read the limit"


def _fact(finding: Finding, limit: Limit) -> str:
    metric, estimate = METRICS[limit.metric], finding.estimate
    value, low, high = (
        readable(amount, metric) for amount in (estimate.value, estimate.low, estimate.high)
    )
    subject = finding.subject or name_of_whole(limit.measured)
    if limit.of:
        return (
            f"the cost of {subject} grows as scale ** {value} "
            f"(at least {low}, at most {high})"
            + _over(estimate.samples, "run" if METRICS[limit.measured].evidence else "task")
        )
    bounds = "" if metric.is_exact else f" (at least {low}, at most {high})"
    if finding.before is not None:
        bounds += f" (before: {readable(finding.before.value, metric)})"
    if metric.units is PERCENT and metric.is_sampled:
        samples = counted(estimate.samples, "busy sample")
        return f"{subject} holds {value}{bounds} of {samples}"
    noun = f" {metric.noun}" if metric.noun else ""
    if metric.evidence:
        subject = finding.subject or metric.spelling or limit.metric
        return f"{subject} is {value}{noun}{bounds} in {counted(estimate.samples, 'run')}"
    if metric.is_peak:
        unit = noun if metric.units is TIME else ""
        return f"{metric.spelling or limit.metric} of {subject} is {value}{unit}{bounds}"
    unit = "per task" if estimate.samples else "a round"
    return f"{subject} takes {value}{noun}{bounds} {unit}{_over(estimate.samples)}"


def _over(samples: int, noun: str = "task") -> str:
    return f" over {counted(samples, noun)}" if samples else ""


def limits_of(record: Result) -> list[tuple[str, LimitResult, Limit | None]]:
    """Return the limits of backends and of evidence, broken ones first.

    Each has the name of the backend or kind before it, and behind it what it says; None if there
    are no figures.
    """
    limits = [(backend.backend, limit) for backend in record.backends for limit in backend.limits]
    limits += [(evidence.kind, limit) for evidence in record.evidence for limit in evidence.limits]
    limits.sort(key=lambda pair: GRAVEST_FIRST.index(pair[1].verdict))
    return [
        (name, limit, (limit.findings and parsed_limit(limit)) or None) for name, limit in limits
    ]


def amount_of(finding: Finding, limit: Limit) -> str:
    return readable(finding.estimate.value, METRICS[limit.metric])


def strip_of(finding: Finding, limit: Limit) -> Interval:
    """Return the bounds of what was measured, with the limit, on one scale."""
    before = finding.before.value if finding.before else None
    edge = limit.bound + limit.factor * (before or 0.0)
    top = MARGIN * max(edge, finding.estimate.high, before or 0.0)
    return interval_of(finding.estimate, top, edge, before)


def grounds_of(finding: Finding, limit: Limit, more: int = 0) -> str:
    """Return the samples or tasks behind a figure, and how many more figures there are."""
    metric = METRICS[limit.metric]
    is_of_samples = metric.is_sampled and metric.units is PERCENT
    unit = "busy sample" if is_of_samples else "run" if limit.evidence else "task"
    words = [counted(finding.estimate.samples, unit)]
    if finding.before:
        words.append(f"before: {readable(finding.before.value, metric)}")
    if more > 0:
        words.append(counted(more, f"more {_named(limit)}"))
    return "; ".join(words)


def dearest(functions: Sequence[FunctionCost], most: int) -> list[FunctionCost]:
    """Return the scheduler's most expensive functions; the record has them in that order."""
    return [function for function in functions if function.owner not in NOT_SCHEDULER][:most]


class Table(NamedTuple):
    """A table that several writers show: heads of its columns, and the cells of each row."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]
    left_out: int = 0
    """Rows that are not shown."""


def cost_table(
    costs: MeasuredCosts, tasks: int, most: int, per_task: str, *, own_seconds: bool = False
) -> Table:
    """Return the most expensive functions: each metric that one has, the owner and the name.

    Args:
        tasks: processed in its window; without any only peaks are shown.
        most: how many functions to show.
        per_task: the end of the heads of metrics that are no peaks.
        own_seconds: whether to show the seconds without callees, too.
    """
    shown = dearest(costs.functions, most)
    measured = {name for cost in shown for name in cost.total}
    columns = [
        name
        for name in (*METRICS, *(INCLUSIVE if own_seconds else ()))
        if name in measured and (tasks or _row_of(name).is_peak) and name != CLIENT_BYTECODES
    ]
    rows = [
        (
            *(_of_task(name, cost.total.get(name, 0.0), tasks) for name in columns),
            cost.owner,
            name_of(cost.function),
        )
        for cost in shown
    ]
    heads = [
        _head(name) if _row_of(name).is_peak else f"{_head(name)}{per_task}" for name in columns
    ]
    return Table((*heads, "owner", "function"), rows, len(costs.functions) - len(shown))


def _row_of(name: str) -> Metric:
    return METRICS[INCLUSIVE.get(name, name)]


def _head(name: str) -> str:
    return "self" if name in INCLUSIVE else name


def _of_task(name: str, amount: float, tasks: int) -> str:
    """Return an amount of a whole window: per task, unless it is a peak."""
    metric = _row_of(name)
    return readable(amount if metric.is_peak else amount / tasks, metric)


def whole_costs(costs: MeasuredCosts, tasks: int, per_task: str = "") -> Iterator[Fact]:
    """Yield what the scheduler as a whole cost; `per_task` ends the names of what is no peak.

    CPU time is left out: backends that measure costs slow the scheduler down.
    """
    for name, amount in costs.whole.items():
        if name in METRICS and not METRICS[name].is_sampled and (tasks or METRICS[name].is_peak):
            label = name if METRICS[name].is_peak else f"{name}{per_task}"
            yield Fact(label, _of_task(name, amount, tasks))
    if not tasks or not any(cost.owner == "worker" for cost in costs.functions):
        return  # workers are counted in tests that make their own clusters, in virtual time
    for side, name in product(sorted(SIDES_IN_TURNS), (CALLS, BYTECODES)):
        if amount := sum(c.total.get(name, 0) for c in costs.functions if c.owner == side):
            yield Fact(f"{name} of @{side}{per_task}", _of_task(name, amount, tasks))


LISTED = 25
"""Functions that a test's page lists: the flame graph has all."""

LISTED_OF_RUN = 12
"""Functions that a run's page lists."""


def hottest(functions: Sequence[FunctionShare], most: int) -> list[FunctionShare]:
    """Return the functions with the largest shares; plumbing is ranked by its own time."""

    def heat(share: FunctionShare) -> float:
        return (share.self_share if share.owner in PLUMBING else share.share).value

    ranked = sorted(functions, key=heat, reverse=True)
    return [function for function in ranked if heat(function)][:most]


def sampling(result: Result, known: KnownBackends) -> BackendResult | None:
    """Return the most recommended backend that has busy samples; None if there is none."""
    busy = [
        backend for backend in result.backends if backend.shares and backend.shares.busy_samples
    ]
    return min(busy, key=lambda backend: rank_of(backend.backend, known), default=None)


def micros_per_sample(backend: BackendResult) -> float:
    """Return the CPU time per task that a busy sample stands for; 0 where there were no tasks."""
    shares, cost = backend.shares, backend.window.cpu_us_per_task
    if shares is None or cost is None:
        return 0.0
    return round(cost * shares.busy_part / max(1, shares.busy_samples), 6)


def busy_time(backend: BackendResult) -> BusyTime:
    """Return what all busy samples of a backend stand for."""
    if (shares := backend.shares) is None:
        return BusyTime(0.0, 0.0)
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


class SharesOfRun:
    """The shares of several tests together, each test weighted by its samples."""

    def __init__(self) -> None:
        self._samples = 0
        self._owners: defaultdict[str, float] = defaultdict(float)
        self._functions: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])

    def add(self, shares: SampledShares) -> None:
        weight = shares.busy_samples
        self._samples += weight
        for owner in shares.owners:
            self._owners[owner.owner] += owner.share.value * weight
        for function in shares.functions:
            sums = self._functions[function.function, function.owner]
            sums[0] += function.share.value * weight
            sums[1] += function.self_share.value * weight

    def owners(self) -> list[OwnerShare]:
        """Return the shares without bounds: those of different tests together have none."""
        total = sum(self._owners.values())
        shares = sorted(((part / total, name) for name, part in self._owners.items()), reverse=True)
        return [OwnerShare(name, exactly(share, 0)) for share, name in shares]

    def functions(self) -> list[FunctionShare]:
        """Return the hottest functions."""
        functions = [
            FunctionShare(*function, *(exactly(part / self._samples, 0) for part in sums))
            for function, sums in self._functions.items()
        ]
        return hottest(functions, LISTED_OF_RUN)
