"""Lets periodic callbacks run as if no one counted."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Collection, Iterable
from typing import Any

Wrapper = Callable[[Callable[[], Any]], Callable[[], Any]]


def untraced(function: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that runs another one while its thread has no trace function."""

    @functools.wraps(function)
    def call() -> Any:
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return function()
        finally:
            sys.settrace(tracer)

    return call


class Untraced:
    """Callbacks of the scheduler that are not counted, and that nothing traces meanwhile.

    What counts is called for each call on its thread, also for those that it leaves out.
    Stealing calls millions of functions when it compares many workers.
    """

    def __init__(
        self, callbacks: Iterable[Any], codes: Collection[int], wrapper: Wrapper = untraced
    ) -> None:
        """Find those of Tornado's periodic callbacks whose code has one of these `id`s."""
        self.wrapper = wrapper
        self.originals = [(each, each.callback) for each in callbacks if _code(each) in codes]

    def begin(self) -> None:
        """Wrap them."""
        for periodic, callback in self.originals:
            periodic.callback = self.wrapper(callback)

    def end(self) -> None:
        """Put them back."""
        for periodic, callback in self.originals:
            periodic.callback = callback


def _code(periodic: Any) -> int:
    """Return the `id` of the code of a callback, which may be decorated."""
    function = getattr(periodic.callback, "__func__", periodic.callback)
    return id(getattr(inspect.unwrap(function), "__code__", None))
