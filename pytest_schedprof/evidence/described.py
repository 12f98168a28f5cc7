"""Tasks of dask's local schedulers as short text."""

from __future__ import annotations

from collections.abc import Iterator
from reprlib import Repr
from typing import Any

from dask.utils import funcname

PLAIN = (bool, int, float, complex, str, type(None))
"""Types whose values are shown; of others, which can be large, only the type is."""

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 40

MOST_ARGUMENTS = 6


def described(task: Any) -> str:
    """Return a task as a call: its function, and its arguments in short."""
    if isinstance(task, tuple) and task and callable(task[0]):  # before dask 2024.12
        return _call(task[0], task[1:], {})
    if callable(getattr(task, "func", None)):
        return _call(task.func, getattr(task, "args", ()), getattr(task, "kwargs", None) or {})
    return _short(task)


def _call(function: Any, args: Any, keywords: dict[str, Any]) -> str:
    parts = [*map(_short, args), *(f"{name}={_short(each)}" for name, each in keywords.items())]
    more = ["..."] if len(parts) > MOST_ARGUMENTS else []
    return f"{funcname(function)}({', '.join([*parts[:MOST_ARGUMENTS], *more])})"


def _short(value: Any) -> str:
    if type(value) in PLAIN:
        return _SHORT.repr(value)
    if type(value).__name__ in ("TaskRef", "Alias"):  # what another task returned
        return _SHORT.repr(getattr(value, "key", value))
    if type(value).__name__ in ("List", "Tuple", "Set"):  # dask's own, of arguments
        return f"[{', '.join(_few(value.args))}]"
    if type(value) in (list, tuple):
        left, right = ("[", "]") if isinstance(value, list) else ("(", ")")
        return f"{left}{', '.join(_few(value))}{right}"
    if callable(value) and hasattr(value, "__name__"):
        return str(funcname(value))
    return type(value).__name__


def _few(values: Any) -> Iterator[str]:
    yield from map(_short, values[:MOST_ARGUMENTS])
    if len(values) > MOST_ARGUMENTS:
        yield "..."
