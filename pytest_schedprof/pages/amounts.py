"""Figures as pages write them."""

from __future__ import annotations

from pytest_schedprof.model.metric import METRICS, PERCENT, readable
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.verdict import Estimate
from pytest_schedprof.pages.views import Interval, Name

MANY = 10_000
"""Microseconds, from which on milliseconds are easier to read."""


def name_of(function: Function) -> Name:
    """Module and name apart, so that the eye finds the name."""
    module, colon, name = function.partition(":")
    return Name(f"{module}:", name) if colon else Name("", function or "the scheduler")


def percent(share: float) -> str:
    """A share."""
    return f"{share:.1%}"


def bounds_of(estimate: Estimate, metric: str = "share") -> str:
    """Both, without a unit where that of the value says it."""
    row = METRICS[metric]
    if row.is_exact or estimate.low == estimate.high:
        return ""
    if row.units is PERCENT:
        return f"{estimate.low * 100:.1f} to {estimate.high * 100:.1f}"
    return f"{readable(estimate.low, row)} to {readable(estimate.high, row)}"


def interval_of(
    estimate: Estimate, top: float, limit: float | None = None, before: float | None = None
) -> Interval:
    """On a scale up to the top."""

    def part(amount: float) -> float:
        return min(1.0, max(0.0, amount / top)) if top else 0.0

    return Interval(
        part(estimate.low),
        part(estimate.value),
        part(estimate.high),
        None if limit is None else part(limit),
        None if before is None else part(before),
    )


def size_of(bytes: int) -> str:
    """A file's."""
    return readable(bytes, METRICS["peak"])


def micros(amount: float) -> str:
    """CPU time per task, in microseconds."""
    if not amount:
        return ""
    if amount >= MANY:
        return f"{amount / 1000:,.1f} ms"
    return f"{amount:,.0f} us" if amount >= 100 else f"{amount:.3g} us"
