"""A parsed limit: an upper bound on a metric. `judge/limits.py` has the language."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum

from msgspec import Struct

from pytest_schedprof.model.metric import ANY_KIND, METRICS, PERCENT, format_amount
from pytest_schedprof.model.profile import Function

CLIENT_PREFIX = "client-"
"""Start of the owners that are phases of the client, which the scheduler does not see."""

POINTS = "pp"
"""Percentage points: the unit of what is added to a baseline that is a share."""


class Limit(Struct, frozen=True):
    """A bound on a metric of the functions, or the owner, that a pattern names."""

    metric: str
    pattern: str
    """Empty for the scheduler as a whole."""
    bound: float
    """Bound in the unit of results: a fraction of one, seconds, bytes. `30%` is 0.3."""
    unit: str = "%"
    """The unit in which the bound was written."""
    of: str = ""
    """The metric whose growth is limited; empty for every other limit."""
    factor: float = 0.0
    """Factor of the baseline, to which `bound` is added; 0 for an absolute limit."""

    @property
    def is_relative(self) -> bool:
        """Whether a baseline is needed to judge it."""
        return self.factor > 0

    @property
    def key(self) -> tuple[str, str, str, bool]:
        """Key of a limit: a closer limit replaces a farther one with the same key."""
        return (self.metric, self.of, self.pattern, self.is_relative)

    @property
    def measured(self) -> str:
        """The metric that a backend must measure."""
        return self.of or self.metric

    @property
    def owner(self) -> str | None:
        """The owner that the pattern names, None if it names functions."""
        return self.pattern[1:] if self.pattern.startswith("@") else None

    @property
    def is_of_client(self) -> bool:
        """Whether it bounds a phase that the scheduler does not see."""
        return (self.owner or "").startswith(CLIENT_PREFIX)

    @property
    def evidence(self) -> str:
        """The kind of evidence that it bounds; empty if backends measure its metric."""
        kind = METRICS[self.measured].evidence
        return self.pattern.partition(":")[0] if kind == ANY_KIND else kind

    def __str__(self) -> str:
        grown = self._spelt(self.of) if self.of else ""
        words = ", ".join(filter(None, (grown, self.pattern)))
        subject = f"({words})" if words else ""
        return f"{self._spelt(self.metric)}{subject} <= {self._bound}"

    def _spelt(self, name: str) -> str:
        return METRICS[name].spelling or name

    @property
    def _bound(self) -> str:
        units = {**METRICS[self.metric].units, POINTS: PERCENT["%"]}
        amount = format_amount(self.bound, self.unit, units[self.unit])
        if not self.is_relative:
            return amount
        times = "" if self.factor == 1 else f" * {format_amount(self.factor, '', Decimal(1))}"
        return f"baseline{times}{f' + {amount}' if self.bound else ''}"


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
        return min(verdicts, key=GRAVEST_FIRST.index, default=Verdict.PASS)


GRAVEST_FIRST = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)
"""The one order of verdicts."""


class Estimate(Struct, frozen=True):
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


class Finding(Struct, frozen=True):
    """The result of one limit for one function or owner."""

    subject: Function
    estimate: Estimate
    verdict: Verdict
    before: Estimate | None = None
    """The estimate in the baseline, if the limit is relative to it."""


class LimitResult(Struct, frozen=True):
    """The result of a limit; findings are sorted, the worst first."""

    limit: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    parsed: Limit
    """What the text says."""
    note: str = ""
    """Why there is no verdict; empty if there is one."""
