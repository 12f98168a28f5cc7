"""Reader of what cProfile measured, and writer of the files that tools for cProfile load.

The agent sends JSON. Python's own format `marshal` is only written: a damaged file of it can crash
who loads it.
"""

from __future__ import annotations

import marshal
from typing import NamedTuple, TypeAlias

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import read_json
from pytest_schedprof.model.profile import CodeLocation, Function, Namer

BUILT_IN = "~"
"""File name that pstats gives functions without Python code."""

VERSION = 1

MOST = 1e18
"""Largest number of calls or seconds; larger ones could not be added up."""

Key: TypeAlias = tuple[str, int, str]
"""File, line and name of a function."""


class Costs(NamedTuple):
    """What a function cost, in all or when one caller called it."""

    primitive: int
    calls: int
    own: float
    total: float


Stats: TypeAlias = dict[Key, tuple[Costs, dict[Key, Costs]]]
"""Costs of each function, and of its callers."""


class _File(msgspec.Struct):
    schedprof_cprofile: int
    functions: list[tuple[Key, Costs, list[tuple[Key, Costs]]]]


def read_stats(content: bytes) -> Stats:
    """Read what the agent sent.

    Raises:
        FormatError: if the bytes are not that.
    """
    file = read_json(content, _File, "cProfile")
    if file.schedprof_cprofile != VERSION:
        raise FormatError(f"schedprof: a file of cProfile of version {file.schedprof_cprofile}")
    if not all(-MOST <= amount <= MOST for _, costs, _ in file.functions for amount in costs):
        raise FormatError("schedprof: not a file of cProfile: a cost cannot be")
    return {key: (costs, dict(callers)) for key, costs, callers in file.functions}


def read_costs(content: bytes, namer: Namer) -> dict[Function, dict[str, float]]:
    """Read calls and seconds of every function.

    Raises:
        FormatError: if the bytes are not what the agent sent.
    """
    stats = read_stats(content)
    names = namer([_place(key) for key in stats])
    functions: dict[Function, dict[str, float]] = {}
    for name, (costs, _) in zip(names, stats.values(), strict=True):
        mine = functions.setdefault(name, {"calls": 0.0, "seconds": 0.0, "self_seconds": 0.0})
        mine["calls"] += costs.calls
        mine["seconds"] += costs.total
        mine["self_seconds"] += costs.own
    return functions


def write_pstats(content: bytes) -> bytes:
    """Write a file that `pstats` loads.

    Raises:
        FormatError: if the bytes are not what the agent sent.
    """
    return marshal.dumps(
        {
            key: (*costs, {caller: tuple(part) for caller, part in callers.items()})
            for key, (costs, callers) in read_stats(content).items()
        }
    )


def _place(key: Key) -> CodeLocation:
    file, line, name = key
    return ("<frozen built-in>" if file == BUILT_IN else file, name, line)
