"""A limit's outcome, with the grounds it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pytest_schedprof.model.profile import Function


class Verdict(str, Enum):
    """What the data says of a limit."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"

    @staticmethod
    def worst(verdicts: list[Verdict]) -> Verdict:
        """The verdict of several taken together: one failure fails, one doubt is a doubt."""
        for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
            if verdict in verdicts:
                return verdict
        return Verdict.PASS


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share or a cost per task, with a one-sided bound on either side."""

    value: float
    low: float
    """The true value is at least this, at the confidence level of the result."""
    high: float
    """The true value is at most this, at the same level."""
    samples: int
    """What is in the denominator: busy scheduler samples of a share, tasks of a cost."""
    dispersion: float
    """Standard deviation of a share relative to independent samples, 1 is the textbook; of a
    cost 0."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One function (or owner) held against one limit."""

    subject: Function
    estimate: Estimate
    verdict: Verdict
    before: Estimate | None = None
    """The same in the baseline, if the limit is relative to it."""


@dataclass(frozen=True, slots=True)
class LimitResult:
    """A limit and what became of it; findings are sorted, the worst first."""

    limit: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    note: str = ""
    """Why no verdict was possible, if so."""

    @property
    def metric(self) -> str:
        """What the limit bounds."""
        return self.limit.partition("<=")[0].partition("(")[0].strip()
