"""Limits and their verdicts: as rows, as sentences and as counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_schedprof.gates.limits import parsed_limit
from pytest_schedprof.model.limit import Limit
from pytest_schedprof.model.metric import METRICS, PERCENT, TIME, Metric, readable
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.verdict import Finding, LimitResult, Verdict
from pytest_schedprof.presentation.amounts import (
    CLIENT,
    WHOLE,
    Interval,
    bounds_of,
    counted,
    interval_of,
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
    subject = finding.subject or (CLIENT if METRICS[limit.measured].is_here else WHOLE)
    if metric.of_metric:
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
        unit = noun if metric.is_held or metric.units is TIME else ""
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
