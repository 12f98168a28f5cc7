"""A result as it travels from a pytest-xdist worker to the controller: plain values, cut short."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from pytest_schedprof.model.result import Result, StoredResult
from pytest_schedprof.reports.terminal import HOT_FUNCTIONS_VERBOSE, hottest


def pack(result: Result, directory: Path | None) -> dict[str, Any]:
    """What the controller needs of a result, as plain values; the whole of it is on disk."""
    backends = tuple(
        replace(backend, functions=tuple(hottest(backend, HOT_FUNCTIONS_VERBOSE)))
        for backend in result.backends
    )
    stored = StoredResult(str(directory or ""), replace(result, backends=backends))
    packed: dict[str, Any] = msgspec.to_builtins(stored)
    return packed


def unpack(packed: dict[str, Any]) -> StoredResult:
    """The stored result again."""
    return msgspec.convert(packed, StoredResult)
