"""Shares of owners and functions, as a page shows them."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_schedprof.model.result import BackendResult, FunctionShare, OwnerShare
from pytest_schedprof.pages.amounts import bounds_of, interval_of, micros, name_of, percent
from pytest_schedprof.pages.flame import micros_per_sample
from pytest_schedprof.pages.views import FunctionRow, OwnerRow
from pytest_schedprof.reports.terminal import hottest

MOST = 25
"""Functions that are listed: the flame graph has all."""


def owner_rows(backend: BackendResult) -> tuple[OwnerRow, ...]:
    """The dearest first."""
    if backend.shares is None or not backend.shares.owners:
        return ()
    owners = backend.shares.owners
    top = max(each.share.high for each in owners)
    whole = micros_per_sample(backend) * backend.shares.busy_samples
    return tuple(_owner_row(each, top, whole) for each in owners)


def _owner_row(found: OwnerShare, top: float, whole: float) -> OwnerRow:
    return OwnerRow(
        found.owner,
        found.share.value,
        percent(found.share.value),
        bounds_of(found.share),
        micros(found.share.value * whole),
        interval_of(found.share, top),
    )


def function_rows(backend: BackendResult) -> tuple[FunctionRow, ...]:
    """The hottest."""
    shares = backend.shares
    if shares is None:
        return ()
    whole = micros_per_sample(backend) * shares.busy_samples
    return rows_of(hottest(shares.functions, MOST), whole)


def rows_of(functions: Sequence[FunctionShare], whole: float) -> tuple[FunctionRow, ...]:
    """In the order that they are in."""
    top = max((each.share.high for each in functions), default=1.0)
    return tuple(_function_row(each, top, whole) for each in functions)


def _function_row(found: FunctionShare, top: float, whole: float) -> FunctionRow:
    return FunctionRow(
        name_of(found.function),
        found.owner,
        percent(found.share.value),
        bounds_of(found.share),
        percent(found.self_share.value),
        micros(found.share.value * whole),
        interval_of(found.share, top),
    )


def left_out(backend: BackendResult) -> int:
    """How many functions are not listed."""
    shares = backend.shares
    return len(shares.functions) - len(hottest(shares.functions, MOST)) if shares else 0
