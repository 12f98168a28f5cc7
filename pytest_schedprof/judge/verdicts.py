"""Judge limits by shares and costs, with three verdicts and the figures behind each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from math import fsum, hypot
from typing import Protocol

from msgspec.structs import replace

from pytest_schedprof.errors import LimitError, hint
from pytest_schedprof.judge.costs import is_line
from pytest_schedprof.judge.estimate import ROUNDING
from pytest_schedprof.model.limit import (
    GRAVEST_FIRST,
    Estimate,
    Finding,
    Limit,
    LimitResult,
    Verdict,
)
from pytest_schedprof.model.metric import METRICS, STALLS
from pytest_schedprof.model.profile import Function, compile_pattern

MOST_NAMED = 20
"""Names that an error tells at most."""


class Baseline(Protocol):
    """An earlier measurement, for limits that are relative to it."""

    def of(self, metric: str, subject: str) -> Estimate:
        """Return the earlier estimate of a metric."""

    def line(self, metric: str, function: Function) -> str:
        """Return under which name the baseline has a function: its own, or its module's others."""

    def doubt(self, metric: str, subjects: Sequence[str] = ()) -> str:
        """Return why a limit on the metric of these cannot be judged; empty if it can."""


NO_BASELINE = "no baseline to compare with: give one with --schedprof-compare"


def judge(
    limit: Limit,
    measurements: Measurements,
    known: Sequence[Function],
    baseline: Baseline | None = None,
) -> LimitResult:
    """Judge one limit.

    Args:
        known: functions of the scheduler's code that match the limit's pattern.
        baseline: what relative limits are relative to; without it they are inconclusive.

    Raises:
        LimitError: if the pattern matches nothing in the scheduler's code.
    """
    subjects = _subjects(limit, measurements, known)
    doubt = measurements.doubt_of_growth(limit.of, limit.pattern) if limit.of else ""
    doubt = doubt or measurements.doubt(limit.measured, limit.pattern)
    if limit.is_relative and not doubt:
        doubt = baseline.doubt(limit.metric, subjects) if baseline else NO_BASELINE
    if doubt:
        return LimitResult(str(limit), Verdict.INCONCLUSIVE, (), limit, doubt)
    findings = sorted(
        _findings(limit, subjects, measurements, baseline),
        key=lambda finding: (
            GRAVEST_FIRST.index(finding.verdict),
            -finding.estimate.value,
            finding.subject,
        ),
    )
    verdict = Verdict.worst([finding.verdict for finding in findings])
    return LimitResult(str(limit), verdict, tuple(findings), limit)


def _subjects(limit: Limit, measurements: Measurements, known: Sequence[Function]) -> list[str]:
    """Return the subjects to judge: the whole, an owner, or each function that was seen.

    If no function was seen, one known function stands for all: it cannot break the limit.
    """
    # Relative to a baseline the whole is bounded: another function may have stalled longest there.
    if limit.metric in STALLS and not limit.pattern and not limit.is_relative:
        return [_longest(limit.metric, measurements)]
    if limit.owner or not limit.pattern:
        return [limit.pattern]
    matches = compile_pattern(limit.pattern).fullmatch
    seen = [
        function
        for function in measurements.seen(limit.measured)
        if matches(function) and is_line(function) == is_line(limit.pattern)
    ]
    if seen:
        return seen
    if not known:
        raise LimitError(f"schedprof: limit {str(limit)!r}: {_names_nothing(limit, measurements)}")
    return list(known[:1])


def _names_nothing(limit: Limit, measurements: Measurements) -> str:
    named = METRICS[limit.measured].named
    if named:
        names = ", ".join(sorted(measurements.seen(limit.measured))[:MOST_NAMED]) or "none"
        return f"{limit.pattern!r} names no {named} of the test; there were: {names}"
    near = hint(limit.pattern, measurements.seen(limit.measured))
    return (
        f"{limit.pattern!r} names nothing in the scheduler's code{near}; see `functions` in a "
        "result.json for names that exist"
    )


def _longest(metric: str, measurements: Measurements) -> str:
    """Return the function that has the figure of the whole; empty if none has."""
    whole = measurements.of(metric, "").value
    names = (name for name in measurements.seen(metric) if measurements.of(metric, name).value)
    return next((name for name in names if measurements.of(metric, name).value >= whole), "")


def _findings(
    limit: Limit, subjects: Sequence[str], measurements: Measurements, baseline: Baseline | None
) -> Iterator[Finding]:
    """Judge each subject, and together those that the baseline has in one line only.

    That line is of all rare functions of a module, so the limit must be on the whole module, too.
    """
    together: dict[str, list[str]] = defaultdict(list)
    for subject in subjects:
        if not (baseline and limit.is_relative):
            value = measurements.growth if limit.of else measurements.of
            now = value(limit.measured, subject)
            yield Finding(subject, now, _verdict(now.low, now.high, limit.bound))
        elif limit.pattern.endswith(":*"):
            together[baseline.line(limit.metric, subject)].append(subject)
        else:
            together[subject].append(subject)
    for line, functions in together.items():
        assert baseline
        parts = [measurements.of(limit.measured, function) for function in functions]
        now = replace(
            parts[0],
            value=fsum(part.value for part in parts),
            low=fsum(part.low for part in parts),
            high=fsum(part.high for part in parts),
        )
        before = baseline.of(limit.metric, line)
        low, high = excess(now, before, limit.factor)
        error = ROUNDING * max(abs(now.value), abs(before.value))
        yield Finding(line, now, _verdict(low - error, high - error, limit.bound), before)


def _verdict(low: float, high: float, bound: float) -> Verdict:
    """Fail or pass only if the bounds rule out the contrary."""
    if low > bound:
        return Verdict.FAIL
    return Verdict.PASS if high <= bound else Verdict.INCONCLUSIVE


def excess(estimate: Estimate, before: Estimate, factor: float) -> tuple[float, float]:
    """Return the bounds of `estimate - factor * before`, computed from those of both.

    The distances of the values to their bounds are added as squares: the lower distance of one
    with the upper distance of the other (Newcombe 1998, method 10; Zou and Donner 2008).
    """
    value = estimate.value - factor * before.value
    low = hypot(estimate.value - estimate.low, factor * (before.high - before.value))
    high = hypot(estimate.high - estimate.value, factor * (before.value - before.low))
    return value - low, value + high


class Measurements(Protocol):
    """Estimates of one backend, for every metric and subject that a limit can name."""

    def seen(self, metric: str) -> Collection[Function]:
        """Return the functions that were seen."""

    def of(self, metric: str, subject: str) -> Estimate:
        """Return the metric of a function, an `@owner`, or the whole if the subject is empty."""

    def growth(self, metric: str, subject: str) -> Estimate:
        """Return the exponent with which the amount grows with the scale of the test."""

    def doubt_of_growth(self, metric: str, subject: str) -> str:
        """Return why the growth cannot be judged, empty if it can."""

    def doubt(self, metric: str, subject: str) -> str:
        """Return why the metric cannot be judged, empty if it can."""
