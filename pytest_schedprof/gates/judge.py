"""Limits held against shares: three verdicts, each with its evidence."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_schedprof.analysis.patterns import compile_pattern
from pytest_schedprof.analysis.shares import Shares
from pytest_schedprof.errors import LimitError
from pytest_schedprof.gates.limits import Limit
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.verdict import Estimate, Finding, LimitResult, Verdict

MIN_SAMPLES = 50
"""With fewer busy samples no bound means anything, whatever the formula says."""

_ORDER = {Verdict.FAIL: 0, Verdict.INCONCLUSIVE: 1, Verdict.PASS: 2}


def judge(limit: Limit, shares: Shares, known: Sequence[Function]) -> LimitResult:
    """The outcome of one limit.

    Args:
        limit: what to hold the shares against.
        shares: what was measured.
        known: functions of the scheduler's code that the limit's pattern names.

    Raises:
        LimitError: if the pattern names nothing in the scheduler's code.
    """
    subjects = _subjects(limit, shares, known)
    if shares.total.busy < MIN_SAMPLES:
        return LimitResult(str(limit), Verdict.INCONCLUSIVE, (), _too_few(shares))
    findings = sorted(
        (_find(limit, subject, shares) for subject in subjects),
        key=lambda finding: (_ORDER[finding.verdict], -finding.estimate.value, finding.subject),
    )
    verdict = Verdict.worst([finding.verdict for finding in findings])
    return LimitResult(str(limit), verdict, tuple(findings))


def _subjects(limit: Limit, shares: Shares, known: Sequence[Function]) -> list[str]:
    """The owner or each function a limit speaks of; only functions seen can break it."""
    if limit.owner:
        return [limit.pattern]
    matches = compile_pattern(limit.pattern).fullmatch
    seen = [function for function in shares.total.inclusive if matches(function)]
    if seen:
        return seen
    if not known:
        raise LimitError(
            f"schedprof: limit {str(limit)!r}: {limit.pattern!r} names nothing in the "
            "scheduler's code; see `functions` in a result.json for names that exist"
        )
    return list(known[:1])


def _find(limit: Limit, subject: str, shares: Shares) -> Finding:
    if limit.owner:
        estimate = shares.of_owner(limit.owner)
    elif limit.metric == "self":
        estimate = shares.of_function_itself(subject)
    else:
        estimate = shares.of_function(subject)
    return Finding(subject, estimate, _verdict(estimate, limit.bound))


def _verdict(estimate: Estimate, bound: float) -> Verdict:
    """Fail and pass only where the data rules out the contrary."""
    if estimate.low > bound:
        return Verdict.FAIL
    return Verdict.PASS if estimate.high <= bound else Verdict.INCONCLUSIVE


def _too_few(shares: Shares) -> str:
    return (
        f"{shares.total.busy} busy samples, at least {MIN_SAMPLES} are needed: give the "
        "scheduler more work, raise the rate or the rounds"
    )


def describe(result: LimitResult) -> str:
    """One line of facts: limit, value, bounds, samples."""
    if not result.findings:
        return f"{result.limit}: {result.note}"
    finding = result.findings[0]
    others = sum(each.verdict is result.verdict for each in result.findings[1:])
    estimate = finding.estimate
    return (
        f"{result.limit}: {finding.subject} holds {estimate.value:.1%} "
        f"(at least {estimate.low:.1%}, at most {estimate.high:.1%}) "
        f"of {estimate.samples} busy samples"
        + (
            f", and {others} more functions"
            if others and result.verdict is not Verdict.PASS
            else ""
        )
    )
