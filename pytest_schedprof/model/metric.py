"""What can be measured and limited: one table. docs/limits.md explains each to users."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

PERCENT = {"%": Decimal("0.01")}
NUMBER = {"": Decimal(1)}
TIME = {"us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1)}
BYTES = {
    "B": Decimal(1),
    "kB": Decimal(10**3),
    "MB": Decimal(10**6),
    "GB": Decimal(10**9),
    "KiB": Decimal(2**10),
    "MiB": Decimal(2**20),
    "GiB": Decimal(2**30),
}


class Metric(NamedTuple):
    """One thing that a limit can bound."""

    units: dict[str, Decimal]
    """What a bound is written in, as multiples of the unit in which results hold it."""
    noun: str
    """As in `6.1 calls per task`; empty where the unit says it all."""
    is_exact: bool = False
    """The same number every run: it has no bounds but itself."""
    is_peak: bool = False
    """Of the whole window, where others are per task."""
    of_functions: bool = True
    of_whole: bool = True
    """Whether it can be limited without a pattern, for the scheduler as a whole."""
    of_metric: bool = False
    """Whether it is said of another metric, which comes first in its brackets."""


METRICS: dict[str, Metric] = {
    "share": Metric(PERCENT, "", of_whole=False),
    "self": Metric(PERCENT, "", of_whole=False),
    "cpu": Metric(TIME, "of CPU"),
    "calls": Metric(NUMBER, "calls", is_exact=True),
    "bytecodes": Metric(NUMBER, "bytecodes", is_exact=True),
    "seconds": Metric(TIME, "", of_whole=False),
    "transitions": Metric(NUMBER, "transitions", is_exact=True, of_functions=False),
    "messages_in": Metric(NUMBER, "messages", is_exact=True, of_functions=False),
    "messages_out": Metric(NUMBER, "messages", is_exact=True, of_functions=False),
    "bytes_in": Metric(BYTES, "", is_exact=True, of_functions=False),
    "bytes_out": Metric(BYTES, "", is_exact=True, of_functions=False),
    "peak": Metric(BYTES, "", is_peak=True, of_functions=False),
    "leaked": Metric(BYTES, "", is_peak=True, of_functions=False),
    "growth": Metric(NUMBER, "", of_metric=True),
}


GROWING = tuple(
    name for name, metric in METRICS.items() if metric.units is not PERCENT and not metric.of_metric
)
"""Metrics whose growth can be limited: amounts, and no parts of one."""


def format_amount(amount: float, unit: str, factor: Decimal) -> str:
    """An amount in a unit, exact and without trailing zeros: 0.3 in % is `30%`."""
    text = format(Decimal(repr(amount)) / factor, "f")
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}{unit}"


def readable(amount: float, metric: Metric) -> str:
    """An amount for people, in the largest unit that leaves at least one before the point."""
    if metric.units is PERCENT:
        return f"{amount:.1%}"
    if metric.units is NUMBER:
        return f"{amount:,.3f}".rstrip("0").rstrip(".")
    steps = [(unit, float(factor)) for unit, factor in metric.units.items() if "i" not in unit]
    fitting = [step for step in steps if abs(amount) >= step[1]] or steps[:1]
    unit, factor = fitting[-1]
    return f"{amount / factor:.3g} {unit}"
