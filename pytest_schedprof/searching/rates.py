"""The search for the highest rate that is carried: doubled or halved first, then bisected.

Whatever else happens on a machine can only make a rate fail, so a rate fails if it failed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt
from typing import NamedTuple

from pytest_schedprof.model.capacity import Bounds

LATE = 0.1
"""Part of the time in which graphs arrive by which the last one may be late."""

TRIES = 2

NEAR = 1.1
"""The search ends when the lowest rate that failed is so many times the highest that is carried."""

FARTHEST = 64.0
"""How far from the first rate, by a factor, is searched."""


class Tried(NamedTuple):
    """A rate that was tried."""

    rate: float
    is_carried: bool


class Bracket(NamedTuple):
    """What is known of the highest rate."""

    carried: float
    """The highest rate that was carried; 0 if none was."""
    failed: float
    """The lowest rate that failed; infinity if none did."""


def bracket(tried: Sequence[Tried]) -> Bracket:
    """Return the rates between which the highest one lies."""
    carried = max((each.rate for each in tried if each.is_carried), default=0.0)
    failed = [each.rate for each in tried if not each.is_carried and each.rate > carried]
    twice = [rate for rate in failed if failed.count(rate) >= TRIES]
    return Bracket(carried, min(twice, default=inf))


def next_rate(first: float, tried: Sequence[Tried], most: int) -> float | None:
    """Return the rate to try next; None at the end.

    Args:
        first: where to begin.
        tried: what was tried, in order.
        most: how many tries there may be.
    """
    if not tried:
        return first
    if len(tried) >= most:
        return None
    carried, failed = bracket(tried)
    last = tried[-1]
    if not last.is_carried and last.rate < failed:
        return last.rate
    following = _following(first, carried, failed)
    return following if first / FARTHEST <= following <= first * FARTHEST else None


def _following(first: float, carried: float, failed: float) -> float:
    if failed == inf:
        return 2 * carried
    if carried == 0:
        return failed / 2
    return inf if failed / carried <= NEAR else sqrt(carried * failed)


def broken_by(stall: float, lag: float, late: float, bounds: Bounds) -> str:
    """Return the bound that is not kept; empty if all are.

    Args:
        stall: seconds of CPU.
        lag: seconds of CPU.
        late: as a part of the time in which graphs arrived.
        bounds: what the event loop must keep.
    """
    if stall > bounds.stall:
        return "stall"
    if lag > bounds.lag:
        return "lag"
    return "late" if late > LATE else ""
