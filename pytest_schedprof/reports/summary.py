"""A result as it travels from a pytest-xdist worker to the controller: plain values, cut short."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from pytest_schedprof.analysis.recent import figures_of
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.run import StoredResult
from pytest_schedprof.reports.terminal import HOT_FUNCTIONS_VERBOSE, dearest, hottest


def pack(result: Result, directory: Path | None) -> dict[str, Any]:
    """What the controller needs of a result, as plain values; the whole of it is on disk."""
    backends = tuple(_cut(backend) for backend in result.backends)
    cut = replace(result, backends=backends)
    stored = StoredResult(str(directory or ""), cut, figures_of(result))
    packed: dict[str, Any] = msgspec.to_builtins(stored)
    return packed


def _cut(backend: BackendResult) -> BackendResult:
    """With the functions that the terminal shows, and no more."""
    most, shares, costs = HOT_FUNCTIONS_VERBOSE, backend.shares, backend.costs
    return replace(
        backend,
        shares=shares and replace(shares, functions=tuple(hottest(shares.functions, most))),
        costs=costs and replace(costs, functions=tuple(dearest(costs.functions, most))),
    )


def unpack(packed: dict[str, Any]) -> StoredResult:
    """The stored result again."""
    return msgspec.convert(packed, StoredResult)
