"""Reader of cProfile's files."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator, Sequence

from pytest_schedprof.errors import FormatError
from pytest_schedprof.model.profile import Function

Place = tuple[str, str, int]
"""File, name and first line, as a namer takes them."""

BUILT_IN = "~"
"""What stands for the file of a function without Python code."""


def read_pstats(
    content: bytes, namer: Callable[[list[Place]], Sequence[Function]]
) -> dict[Function, dict[str, float]]:
    """Calls and seconds of every function.

    Raises:
        FormatError: if the bytes are no such file.
    """
    try:
        rows = list(_rows(marshal.loads(content)))
    except (ValueError, EOFError, TypeError, AttributeError) as error:
        raise FormatError(
            f"schedprof: not a pstats file: {error} ({len(content)} bytes)"
        ) from error
    names = namer([place for place, _ in rows])
    functions: dict[Function, dict[str, float]] = {}
    for name, (_, costs) in zip(names, rows, strict=True):
        mine = functions.setdefault(name, dict.fromkeys(costs, 0.0))
        for metric, amount in costs.items():
            mine[metric] += amount
    return functions


def _rows(stats: object) -> Iterator[tuple[Place, dict[str, float]]]:
    if not isinstance(stats, dict):
        raise TypeError(f"it holds a {type(stats).__name__}")
    for (file, line, name), (_, calls, own, total, _callers) in stats.items():
        place = ("<frozen built-in>" if file == BUILT_IN else file, name, line)
        yield place, {"calls": calls, "seconds": total, "self_seconds": own}
