"""Wraps functions of a scheduler in a step, wherever it refers to them, and undoes that."""

from __future__ import annotations

import difflib
import functools
import inspect
import pkgutil
import types
from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import partial
from typing import Any

Step = Callable[[Callable[[], Any]], Any]
"""Calls the given function, and does something before and after."""


class Patches:
    """All patches of one recording; its end removes them."""

    def __init__(self, undo: ExitStack) -> None:
        self.uncalled: set[str] = set()
        """Names of functions that were not called yet."""
        self.undo = undo

    def add(self, name: str, scheduler: Any, step_of: Callable[[Any], Step]) -> None:
        """Wrap a function in a step, also in the scheduler's tables that refer to it."""
        owner, attribute = find_owner(name)
        found = inspect.getattr_static(owner, attribute)
        function = function_in(found)
        wrapper = self.wrapped(name, function, step_of(function))
        is_own = attribute in vars(owner)
        setattr(owner, attribute, wrapper if found is function else type(found)(wrapper))
        put_back = (setattr, owner, attribute, found) if is_own else (delattr, owner, attribute)
        self.undo.callback(*put_back)
        for table, key, value in references(scheduler, function):
            target = getattr(value, "__self__", None)
            table[key] = wrapper if value is function else types.MethodType(wrapper, target)
            self.undo.callback(table.__setitem__, key, value)
        self.uncalled.add(name)

    def wrapped(self, name: str, function: Any, step: Step) -> Any:
        """Return a wrapper that runs the function in the step, a coroutine between its awaits."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.uncalled.discard(name)
            result = step(partial(function, *args, **kwargs))
            return in_steps(result, step) if inspect.iscoroutine(result) else result

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            self.uncalled.discard(name)
            return await in_steps(function(*args, **kwargs), step)

        return coroutine if inspect.iscoroutinefunction(function) else call


async def in_steps(coroutine: Any, step: Step) -> Any:
    """Run a coroutine in steps, as a coroutine."""
    return await steps(coroutine, step)


@types.coroutine
def steps(coroutine: Any, step: Step) -> Generator[Any, Any, Any]:
    """Drive a coroutine; each stretch between two awaits runs in the step.

    Uses `partial`, because a C method that is called directly would be in the trace.
    """
    call = partial(coroutine.send, None)
    while True:
        try:
            awaited = step(call)
        except StopIteration as stop:
            return stop.value
        try:
            call = partial(coroutine.send, (yield awaited))
        except BaseException as error:  # including cancellation
            call = partial(coroutine.throw, error)


def find_owner(name: str) -> tuple[Any, str]:
    """Return the object and attribute that hold a named function, as unittest.mock.patch does."""
    path, _, attribute = name.replace(":", ".").rpartition(".")
    return pkgutil.resolve_name(path), attribute


def function_in(found: Any) -> Any:
    """Return the function that an attribute holds, plain or as a static or class method."""
    function = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
    is_lazy = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if not callable(function) or isinstance(function, type) or is_lazy:
        raise TypeError("it is no function or coroutine function")
    return function


def references(scheduler: Any, function: Any) -> list[tuple[dict[Any, Any], Any, Any]]:
    """Return the entries of the scheduler's tables that hold the function, mostly as a method."""
    tables = [scheduler.handlers, scheduler.stream_handlers, scheduler._TRANSITIONS_TABLE]
    tables += [vars(callback) for callback in scheduler.periodic_callbacks.values()]
    return [
        (table, key, value)
        for table in tables
        for key, value in table.items()
        if getattr(value, "__func__", value) is function
    ]


def similar(name: str) -> str:
    """Suggest an attribute with a similar name, for names of other versions of the code."""
    try:
        owner, attribute = find_owner(name)
    except Exception:
        return ""
    close = difflib.get_close_matches(attribute, dir(owner), n=1)
    return f"; did you mean {close[0]!r}?" if close and close[0] != attribute else ""
