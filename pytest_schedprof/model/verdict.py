"""The outcome of a limit, with the figures that it is based on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pytest_schedprof.model.limit import Limit
from pytest_schedprof.model.profile import Function

MIN_SAMPLES = 50
"""Smallest number of busy samples: with fewer, the bounds are not reliable."""


class Verdict(StrEnum):
    """Whether a limit holds, by the data."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"

    @staticmethod
    def worst(verdicts: list[Verdict]) -> Verdict:
        """Return the worst verdict: fail, else inconclusive, else pass."""
        for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
            if verdict in verdicts:
                return verdict
        return Verdict.PASS


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share or a cost per task, with a one-sided bound on either side."""

    value: float
    low: float
    """Lower bound of the true value, at the confidence level of the result."""
    high: float
    """Upper bound of the true value, at the same level."""
    samples: int
    """The denominator: busy scheduler samples for a share, tasks for a cost."""
    dispersion: float
    """Standard deviation of a share relative to that of independent samples; 0 for a cost."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one limit for one function or owner."""

    subject: Function
    estimate: Estimate
    verdict: Verdict
    before: Estimate | None = None
    """The estimate in the baseline, if the limit is relative to it."""


@dataclass(frozen=True, slots=True)
class LimitResult:
    """The result of a limit; findings are sorted, the worst first."""

    limit: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    note: str = ""
    """Why there is no verdict; empty if there is one."""
    parsed: Limit = field(kw_only=True)
    """What the text says."""
