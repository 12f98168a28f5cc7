"""Reader of cProfile's files."""

from __future__ import annotations

from typing import Any, TypeAlias

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats.marshalled import read_marshalled
from pytest_schedprof.model.profile import CodeLocation, Function, Namer

BUILT_IN = "~"
"""File name that pstats gives functions without Python code."""

MOST = 1e18
"""Largest number of calls or seconds; larger ones could not be added up."""

Key: TypeAlias = tuple[str, int, str]
"""File, line and name of a function."""

Stats: TypeAlias = dict[Key, tuple[int, int, float, float, dict[Key, Any]]]
"""Primitive calls, calls, own seconds, seconds, and callers of each function."""


def read_pstats(content: bytes, namer: Namer) -> dict[Function, dict[str, float]]:
    """Read calls and seconds of every function.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    rows = [
        (_place(key), {"calls": calls, "seconds": total, "self_seconds": own})
        for key, (_, calls, own, total, _callers) in read_stats(content).items()
    ]
    names = namer([place for place, _ in rows])
    functions: dict[Function, dict[str, float]] = {}
    for name, (_, costs) in zip(names, rows, strict=True):
        mine = functions.setdefault(name, dict.fromkeys(costs, 0.0))
        for metric, amount in costs.items():
            mine[metric] += amount
    return functions


def read_stats(content: bytes) -> Stats:
    """Read a file as it is.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    try:
        stats = read_marshalled(content)
    except ValueError as error:
        raise _not_stats(f"{error}", content) from error
    if not isinstance(stats, dict):
        raise _not_stats(f"it holds a {type(stats).__name__}", content)
    for key, value in stats.items():
        if not (_is_key(key) and _is_value(value)):
            raise _not_stats("an entry is not of a function and its costs", content)
    return stats


def _not_stats(reason: str, content: bytes) -> FormatError:
    return FormatError(f"schedprof: not a pstats file: {reason} ({len(content)} bytes)")


def _is_key(key: object) -> bool:
    return isinstance(key, tuple) and tuple(map(type, key)) == (str, int, str)


def _is_value(value: object) -> bool:
    if not (isinstance(value, tuple) and len(value) == 5 and isinstance(value[4], dict)):
        return False
    return all(map(_is_amount, value[:4])) and all(
        _is_key(key) and _is_of_caller(costs) for key, costs in value[4].items()
    )


def _is_of_caller(costs: object) -> bool:
    """Whether it is the four costs of a call, or in files of old profilers a number of calls."""
    if isinstance(costs, tuple):
        return len(costs) == 4 and all(map(_is_amount, costs))
    return _is_amount(costs)


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float)) and -MOST <= value <= MOST


def _place(key: Key) -> CodeLocation:
    file, line, name = key
    return ("<frozen built-in>" if file == BUILT_IN else file, name, line)
