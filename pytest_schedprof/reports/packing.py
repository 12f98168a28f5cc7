"""Results on the way from a pytest-xdist worker to the controller: plain values, cut short."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from pytest_schedprof.analysis.recent import figures_of
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.run import StoredResult
from pytest_schedprof.presentation.costs import dearest
from pytest_schedprof.presentation.functions import hottest
from pytest_schedprof.reports.terminal import HOT_FUNCTIONS_VERBOSE


def pack(result: Result, directory: Path | None) -> dict[str, Any]:
    """Return what the controller needs of a result as plain values; the full record is on disk."""
    backends = tuple(_cut(backend) for backend in result.backends)
    cut = replace(result, backends=backends)
    stored = StoredResult(str(directory or ""), cut, figures_of(result))
    packed: dict[str, Any] = msgspec.to_builtins(stored)
    return packed


def _cut(backend: BackendResult) -> BackendResult:
    """Keep only the functions that the terminal can show."""
    most, shares, costs = HOT_FUNCTIONS_VERBOSE, backend.shares, backend.costs
    return replace(
        backend,
        shares=shares and replace(shares, functions=tuple(hottest(shares.functions, most))),
        costs=costs and replace(costs, functions=tuple(dearest(costs.functions, most)), folded=()),
    )


def unpack(packed: dict[str, Any]) -> StoredResult:
    """Return the stored result from its plain values."""
    return msgspec.convert(packed, StoredResult)
