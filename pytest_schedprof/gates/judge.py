"""Limits held against shares and costs: three verdicts, each with its grounds."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from typing import Protocol

from pytest_schedprof.analysis.grounds import Grounds
from pytest_schedprof.analysis.patterns import compile_pattern
from pytest_schedprof.errors import LimitError
from pytest_schedprof.gates.limits import Limit
from pytest_schedprof.model.metric import METRICS, PERCENT, Metric, readable
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.verdict import Estimate, Finding, LimitResult, Verdict

DIGITS = 12
"""Of a difference: `1.05 * 1.01 - 1.0605` is no excess, whatever the computer makes of it."""

_ORDER = {Verdict.FAIL: 0, Verdict.INCONCLUSIVE: 1, Verdict.PASS: 2}


class Baseline(Protocol):
    """What was measured before, for limits that are relative to it."""

    def of(self, metric: str, subject: str) -> Estimate:
        """The metric as it was then."""

    def now(self, metric: str, subject: str, estimate: Estimate) -> Estimate:
        """What was measured now, with the bounds that are known to hold on its machine."""

    def doubt(self, metric: str) -> str:
        """Why nothing can be held against it; empty if it can."""


class NoBaseline:
    """Where none was asked for: relative limits are then kept from being judged."""

    def of(self, metric: str, subject: str) -> Estimate:
        """Never asked, for there is a doubt."""
        raise NotImplementedError

    def now(self, metric: str, subject: str, estimate: Estimate) -> Estimate:
        """Nor is this."""
        raise NotImplementedError

    def doubt(self, metric: str) -> str:
        """What to do about it."""
        return "no baseline to compare with: give one with --schedprof-compare"


NO_BASELINE = NoBaseline()


def judge(
    limit: Limit,
    grounds: Grounds,
    known: Sequence[Function],
    baseline: Baseline = NO_BASELINE,
) -> LimitResult:
    """The outcome of one limit.

    Args:
        limit: what to hold the grounds against.
        grounds: what was measured.
        known: functions of the scheduler's code that the limit's pattern names.
        baseline: what relative limits are held against.

    Raises:
        LimitError: if the pattern names nothing in the scheduler's code.
    """
    subjects = _subjects(limit, grounds, known)
    if doubt := _doubt(limit, grounds) or (limit.is_relative and baseline.doubt(limit.metric)):
        return LimitResult(str(limit), Verdict.INCONCLUSIVE, (), doubt)
    findings = sorted(
        (_find(limit, subject, grounds, baseline) for subject in subjects),
        key=lambda finding: (_ORDER[finding.verdict], -finding.estimate.value, finding.subject),
    )
    verdict = Verdict.worst([finding.verdict for finding in findings])
    return LimitResult(str(limit), verdict, tuple(findings))


def _subjects(limit: Limit, grounds: Grounds, known: Sequence[Function]) -> list[str]:
    """The whole, an owner or each function; of these only what was seen can break a limit."""
    if limit.owner or not limit.pattern:
        return [limit.pattern]
    matches = compile_pattern(limit.pattern).fullmatch
    seen = [function for function in grounds.seen(limit.measured) if matches(function)]
    if seen:
        return seen
    if not known:
        raise LimitError(
            f"schedprof: limit {str(limit)!r}: {limit.pattern!r} names nothing in the "
            "scheduler's code; see `functions` in a result.json for names that exist"
        )
    return list(known[:1])


def _doubt(limit: Limit, grounds: Grounds) -> str:
    if limit.of and (doubt := grounds.doubt_of_growth(limit.of, limit.pattern)):
        return doubt
    return grounds.doubt(limit.measured, limit.pattern)


def _find(limit: Limit, subject: str, grounds: Grounds, baseline: Baseline) -> Finding:
    of = grounds.growth if limit.of else grounds.of
    estimate = of(limit.measured, subject)
    if not limit.is_relative:
        return Finding(subject, estimate, _verdict(estimate.low, estimate.high, limit.bound))
    before = baseline.of(limit.metric, subject)
    estimate = baseline.now(limit.metric, subject, estimate)
    low, high = excess(estimate, before, limit.factor)
    return Finding(subject, estimate, _verdict(low, high, limit.bound), before)


def _verdict(low: float, high: float, bound: float) -> Verdict:
    """Fail and pass only where the data rules out the contrary."""
    if low > bound:
        return Verdict.FAIL
    return Verdict.PASS if high <= bound else Verdict.INCONCLUSIVE


def excess(estimate: Estimate, before: Estimate, factor: float) -> tuple[float, float]:
    """Bounds of `estimate - factor * before`, from those of both.

    Distances from a value to its bounds add up as squares, the lower one of the one with the upper
    one of the other (after Newcombe 1998, method 10, and Zou and Donner 2008).
    """
    value = round(estimate.value - factor * before.value, DIGITS)
    low = hypot(estimate.value - estimate.low, factor * (before.high - before.value))
    high = hypot(estimate.high - estimate.value, factor * (before.value - before.low))
    return value - low, value + high


def describe(result: LimitResult) -> str:
    """One line of facts: limit, value, bounds, and what they rest on."""
    if not result.findings:
        return f"{result.limit}: {result.note}"
    finding = result.findings[0]
    others = sum(each.verdict is result.verdict for each in result.findings[1:])
    more = f", and {others} more functions" if others and result.verdict is not Verdict.PASS else ""
    return f"{result.limit}: {_fact(finding, result.metric)}{more}"


def _fact(finding: Finding, name: str) -> str:
    metric, estimate = METRICS[name], finding.estimate
    value, low, high = (
        readable(amount, metric) for amount in (estimate.value, estimate.low, estimate.high)
    )
    subject = finding.subject or "the scheduler"
    if metric.of_metric:
        return (
            f"what it takes of {subject} grows as scale ** {value} "
            f"(at least {low}, at most {high}) over {estimate.samples} tasks"
        )
    bounds = "" if metric.is_exact else f" (at least {low}, at most {high})"
    bounds += _before(finding, metric)
    if metric.units is PERCENT:
        return f"{subject} holds {value}{bounds} of {estimate.samples} busy samples"
    if metric.is_peak:
        return f"{name} of {subject} is {value}{bounds}"
    noun = f" {metric.noun}" if metric.noun else ""
    return f"{subject} takes {value}{noun}{bounds} per task over {estimate.samples} tasks"


def _before(finding: Finding, metric: Metric) -> str:
    if finding.before is None:
        return ""
    return f" (before: {readable(finding.before.value, metric)})"
