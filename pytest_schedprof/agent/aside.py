"""Keeps callgrind from counting what differs from run to run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from importlib import _bootstrap
from typing import Any

from .requests import TOGGLE_COLLECT, request


class Aside(threading.local):
    """Lets callgrind look away from what this thread does inside."""

    _depth = 0

    def __enter__(self) -> None:
        if not self._depth:
            request(TOGGLE_COLLECT)
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth:
            request(TOGGLE_COLLECT)


def leave_out() -> list[Callable[[], None]]:
    """Leave out imports and turns of other processes; return functions that end that.

    A module is imported once, and compiled if nobody did so before. And a loop in virtual time
    hands the turn to the test's process more or less often.
    """
    return [_replaced(*each) for each in _replacements(Aside())]


def _replacements(aside: Aside) -> Iterator[tuple[Any, str, Any]]:
    """Yield holder, name and new value of each attribute to replace."""
    find = _bootstrap._find_and_load  # type: ignore[attr-defined]

    def find_aside(*names: Any) -> Any:
        with aside:
            return find(*names)

    yield _bootstrap, "_find_and_load", find_aside
    loop = asyncio.get_running_loop()
    if hasattr(loop, "aside"):
        yield loop, "aside", aside


def _replaced(holder: Any, name: str, value: Any) -> Callable[[], None]:
    """Replace an attribute; return a function that puts the former one back."""
    before = getattr(holder, name)
    setattr(holder, name, value)
    return lambda: setattr(holder, name, before)
