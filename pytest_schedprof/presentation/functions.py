"""Shares of functions and owners: which ones are shown, in which order, and as what text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pytest_schedprof.analysis.busy_time import BusyTime, wall_of
from pytest_schedprof.analysis.owners import PLUMBING
from pytest_schedprof.model.backend import KnownBackends, rank_of
from pytest_schedprof.model.result import (
    BackendResult,
    FunctionShare,
    OwnerShare,
    Result,
    SampledShares,
)
from pytest_schedprof.model.verdict import Estimate
from pytest_schedprof.presentation.amounts import (
    Interval,
    Name,
    bounds_of,
    interval_of,
    micros,
    name_of,
    percent,
)

NO_TIME = BusyTime(0.0, 0.0)

LISTED = 25
"""Functions that a test's page lists: the flame graph has all."""

LISTED_OF_RUN = 12
"""Functions that a run's page lists."""


class OwnerRow(NamedTuple):
    """An owner and its share of the scheduler's busy time."""

    owner: str
    part: float
    """The share as a fraction of one."""
    share: str
    bounds: str
    cost: str
    cost_bounds: str
    interval: Interval


class FunctionRow(NamedTuple):
    """A function and its share of the scheduler's busy time."""

    name: Name
    owner: str
    share: str
    bounds: str
    own: str
    cost: str
    cost_bounds: str
    interval: Interval


class FunctionTable(NamedTuple):
    """The hottest functions, and how many more there are."""

    rows: tuple[FunctionRow, ...]
    left_out: int


def hottest(functions: Sequence[FunctionShare], most: int) -> list[FunctionShare]:
    """Return the functions with the largest shares; plumbing is ranked by its own time."""

    def heat(each: FunctionShare) -> float:
        return (each.self_share if each.owner in PLUMBING else each.share).value

    return [each for each in sorted(functions, key=heat, reverse=True) if heat(each)][:most]


def sampling(result: Result, known: KnownBackends) -> BackendResult | None:
    """Return the most recommended backend that has busy samples; None if there is none."""
    found = [each for each in result.backends if each.shares and each.shares.busy_samples]
    return min(found, key=lambda each: rank_of(each.backend, known), default=None)


def micros_per_sample(backend: BackendResult) -> float:
    """Return the CPU time per task that a busy sample stands for; 0 where there were no tasks."""
    shares, cost = backend.shares, backend.window.cpu_us_per_task
    if shares is None or cost is None:
        return 0.0
    return round(cost * shares.busy_part / max(1, shares.busy_samples), 6)


def owner_rows(backend: BackendResult) -> tuple[OwnerRow, ...]:
    """Return the owners in the order of the record, which is by share."""
    if backend.shares is None or not backend.shares.owners:
        return ()
    owners = backend.shares.owners
    top = max(each.share.high for each in owners)
    whole = busy_time(backend)
    return tuple(_owner_row(each, top, whole) for each in owners)


def _owner_row(found: OwnerShare, top: float, whole: BusyTime) -> OwnerRow:
    return OwnerRow(
        found.owner,
        found.share.value,
        percent(found.share.value),
        bounds_of(found.share),
        *costs_of(found.share, whole),
        interval_of(found.share, top),
    )


def function_table(backend: BackendResult) -> FunctionTable:
    """Return the hottest functions of one backend; no rows for a backend without samples."""
    shares = backend.shares
    if shares is None:
        return FunctionTable((), 0)
    shown = hottest(shares.functions, LISTED)
    rows = _function_rows(shown, busy_time(backend))
    return FunctionTable(rows, len(shares.functions) - len(shown))


def busy_time(backend: BackendResult) -> BusyTime:
    """Return what all busy samples of a backend stand for."""
    if (shares := backend.shares) is None:
        return NO_TIME
    cpu = micros_per_sample(backend) * shares.busy_samples
    return BusyTime(
        cpu, wall_of(shares.busy_samples, shares.sample_seconds, backend.window.tasks) if cpu else 0
    )


def costs_of(share: Estimate, whole: BusyTime) -> tuple[str, str]:
    """Return the CPU time per task that a share is, and its bounds.

    The CPU time of the whole is measured: its error is small beside that of a share of samples.
    """
    low, high = map(micros, whole.bounds(share))
    bounds = f"{low or '0 us'} to {high}" if share.low < share.high and high else ""
    return micros(share.value * whole.cpu), bounds


def _function_rows(functions: Sequence[FunctionShare], whole: BusyTime) -> tuple[FunctionRow, ...]:
    top = max((each.share.high for each in functions), default=1.0)
    return tuple(_function_row(each, top, whole) for each in functions)


def _function_row(found: FunctionShare, top: float, whole: BusyTime) -> FunctionRow:
    return FunctionRow(
        name_of(found.function),
        found.owner,
        percent(found.share.value),
        bounds_of(found.share),
        percent(found.self_share.value),
        *costs_of(found.share, whole),
        interval_of(found.share, top),
    )


def owners_of_run(backends: Iterable[BackendResult]) -> tuple[OwnerRow, ...]:
    """Return the owners of several tests together, each test weighted by its samples."""
    sums: defaultdict[str, float] = defaultdict(float)
    for shares in _shares(backends):
        for each in shares.owners:
            sums[each.owner] += each.share.value * shares.busy_samples
    total = sum(sums.values())
    parts = sorted(((count / total, owner) for owner, count in sums.items()), reverse=True)
    return tuple(
        OwnerRow(owner, part, percent(part), "", "", "", interval_of(_exactly(part), 1.0))
        for part, owner in parts
    )


def functions_of_run(backends: Iterable[BackendResult]) -> tuple[FunctionRow, ...]:
    """Return the hottest functions of several tests together, weighted by their samples."""
    shares = list(_shares(backends))
    total = sum(each.busy_samples for each in shares)
    held: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for each in shares:
        for found in each.functions:
            sums = held[found.function, found.owner]
            sums[0] += found.share.value * each.busy_samples / total
            sums[1] += found.self_share.value * each.busy_samples / total
    functions = [
        FunctionShare(function, owner, _exactly(share), _exactly(own))
        for (function, owner), (share, own) in held.items()
    ]
    return _function_rows(hottest(functions, LISTED_OF_RUN), NO_TIME)


def _shares(backends: Iterable[BackendResult]) -> Iterator[SampledShares]:
    return (backend.shares for backend in backends if backend.shares)


def _exactly(share: float) -> Estimate:
    """Return a share without bounds: shares of different tests together have none."""
    return Estimate(share, share, share, 0, 0.0)
