"""Limits held against shares and costs: three verdicts, each with its evidence."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_schedprof.analysis.evidence import Evidence
from pytest_schedprof.analysis.patterns import compile_pattern
from pytest_schedprof.errors import LimitError
from pytest_schedprof.gates.limits import Limit
from pytest_schedprof.model.metric import METRICS, PERCENT, readable
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.verdict import Estimate, Finding, LimitResult, Verdict

_ORDER = {Verdict.FAIL: 0, Verdict.INCONCLUSIVE: 1, Verdict.PASS: 2}


def judge(limit: Limit, evidence: Evidence, known: Sequence[Function]) -> LimitResult:
    """The outcome of one limit.

    Args:
        limit: what to hold the evidence against.
        evidence: what was measured.
        known: functions of the scheduler's code that the limit's pattern names.

    Raises:
        LimitError: if the pattern names nothing in the scheduler's code.
    """
    subjects = _subjects(limit, evidence, known)
    if doubt := _doubt(limit, evidence):
        return LimitResult(str(limit), Verdict.INCONCLUSIVE, (), doubt)
    findings = sorted(
        (_find(limit, subject, evidence) for subject in subjects),
        key=lambda finding: (_ORDER[finding.verdict], -finding.estimate.value, finding.subject),
    )
    verdict = Verdict.worst([finding.verdict for finding in findings])
    return LimitResult(str(limit), verdict, tuple(findings))


def _subjects(limit: Limit, evidence: Evidence, known: Sequence[Function]) -> list[str]:
    """The whole, an owner or each function; of these only what was seen can break a limit."""
    if limit.owner or not limit.pattern:
        return [limit.pattern]
    matches = compile_pattern(limit.pattern).fullmatch
    seen = [function for function in evidence.seen(limit.measured) if matches(function)]
    if seen:
        return seen
    if not known:
        raise LimitError(
            f"schedprof: limit {str(limit)!r}: {limit.pattern!r} names nothing in the "
            "scheduler's code; see `functions` in a result.json for names that exist"
        )
    return list(known[:1])


def _doubt(limit: Limit, evidence: Evidence) -> str:
    if limit.of and (doubt := evidence.doubt_of_growth(limit.of, limit.pattern)):
        return doubt
    return evidence.doubt(limit.measured, limit.pattern)


def _find(limit: Limit, subject: str, evidence: Evidence) -> Finding:
    of = evidence.growth if limit.of else evidence.of
    estimate = of(limit.measured, subject)
    return Finding(subject, estimate, _verdict(estimate, limit.bound))


def _verdict(estimate: Estimate, bound: float) -> Verdict:
    """Fail and pass only where the data rules out the contrary."""
    if estimate.low > bound:
        return Verdict.FAIL
    return Verdict.PASS if estimate.high <= bound else Verdict.INCONCLUSIVE


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
    if metric.units is PERCENT:
        return f"{subject} holds {value}{bounds} of {estimate.samples} busy samples"
    if metric.is_peak:
        return f"{name} of {subject} is {value}{bounds}"
    noun = f" {metric.noun}" if metric.noun else ""
    return f"{subject} takes {value}{noun}{bounds} per task over {estimate.samples} tasks"
