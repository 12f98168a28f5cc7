"""Numbers, function names and estimates as people read them."""

from __future__ import annotations

from typing import NamedTuple

from pytest_schedprof.model.metric import FILE_SIZE, METRICS, PERCENT, SHARE, readable
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.verdict import Estimate

WHOLE, CLIENT = "the scheduler", "the client"
"""Names of the subject of figures that are not of one function or owner."""

MILLISECONDS_FROM = 10_000
"""Microseconds from which milliseconds are easier to read."""


class Fact(NamedTuple):
    """A label and its text."""

    label: str
    text: str


class Name(NamedTuple):
    """A function name in two parts, so that the eye finds the second; `str` joins them."""

    module: str
    """With its colon; empty for an owner or the scheduler as a whole."""
    name: str

    def __str__(self) -> str:
        return f"{self.module}{self.name}"


class Interval(NamedTuple):
    """An estimate with its bounds, on a scale from 0 to 1."""

    low: float
    value: float
    high: float
    limit: float | None = None
    before: float | None = None


def name_of(subject: Function) -> Name:
    """Split a subject into module and name."""
    module, colon, name = subject.partition(":")
    return Name(f"{module}:", name) if colon else Name("", subject or WHOLE)


def with_mode(backend: str, mode: str) -> str:
    """Return a backend's name with its mode, if it has one."""
    return f"{backend} ({mode})" if mode else backend


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun in the singular or plural."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{share:.1%}"


def bounds_of(estimate: Estimate, metric: str = SHARE) -> str:
    """Return both bounds; empty for an exact figure.

    Bounds of shares have no percent sign, because that of the value stands beside them.
    """
    row = METRICS[metric]
    if row.is_exact or estimate.low == estimate.high:
        return ""
    if row.units is PERCENT:
        return f"{estimate.low * 100:.1f} to {estimate.high * 100:.1f}"
    return f"{readable(estimate.low, row)} to {readable(estimate.high, row)}"


def interval_of(
    estimate: Estimate, top: float, limit: float | None = None, before: float | None = None
) -> Interval:
    """Return an estimate on a scale from 0 to `top`."""

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
    """Return the size of a file."""
    return readable(bytes, FILE_SIZE)


def micros(amount: float) -> str:
    """Return CPU time per task, given in microseconds; empty for none."""
    if not amount:
        return ""
    if amount >= MILLISECONDS_FROM:
        return f"{amount / 1000:,.1f} ms"
    return f"{amount:,.0f} us" if amount >= 100 else f"{amount:.3g} us"


def change_of(metric: str, before: float, after: float) -> str:
    """Return the change between two figures: shares in points, all else in percent."""
    if METRICS[metric].units is PERCENT:
        return f"{(after - before) * 100:+.1f} pp"
    if before == after:
        return "+0.0%"
    return f"{after / before - 1:+.1%}" if before else "from 0"


def with_more(amount: float | None) -> str:
    """Return an amount that was added or taken away; empty for none, or next to none."""
    return f"{amount:+,.3g}" if amount and abs(amount) >= 0.005 else ""
