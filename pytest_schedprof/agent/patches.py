"""Functions of a scheduler made to run through a step, wherever it refers to them, and back."""

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
"""Calls what it is given, and does something before and after."""


class Patches:
    """All patches of one recording, whose end takes every one of them away."""

    def __init__(self, undo: ExitStack) -> None:
        self.uncalled: set[str] = set()
        """Names of functions that nobody called yet."""
        self.undo = undo

    def add(self, name: str, scheduler: Any, step_of: Callable[[Any], Step]) -> None:
        """Let all calls of a function go through a step, also where the scheduler refers to it."""
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
        """The function, each run of which goes through the step; a coroutine's between awaits."""

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
    """A coroutine in the place of another, that goes its way in steps."""
    return await steps(coroutine, step)


@types.coroutine
def steps(coroutine: Any, step: Step) -> Generator[Any, Any, Any]:
    """Drive a coroutine, each stretch between two awaits through a step.

    `partial`, for a method of C called as such would be traced with the function.
    """
    call = partial(coroutine.send, None)
    while True:
        try:
            awaited = step(call)
        except StopIteration as stop:
            return stop.value
        try:
            call = partial(coroutine.send, (yield awaited))
        except BaseException as error:  # a cancellation too is for the coroutine
            call = partial(coroutine.throw, error)


def find_owner(name: str) -> tuple[Any, str]:
    """What holds the named function, and under which attribute; as unittest.mock.patch does."""
    path, _, attribute = name.replace(":", ".").rpartition(".")
    return pkgutil.resolve_name(path), attribute


def function_in(found: Any) -> Any:
    """The function that an attribute holds, bare or as a static or class method."""
    function = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
    is_lazy = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if not callable(function) or isinstance(function, type) or is_lazy:
        raise TypeError("it is no function or coroutine function")
    return function


def references(scheduler: Any, function: Any) -> list[tuple[dict[Any, Any], Any, Any]]:
    """Where the scheduler keeps the function beside its name, mostly as a bound method."""
    tables = [scheduler.handlers, scheduler.stream_handlers, scheduler._TRANSITIONS_TABLE]
    tables += [vars(callback) for callback in scheduler.periodic_callbacks.values()]
    return [
        (table, key, value)
        for table in tables
        for key, value in table.items()
        if getattr(value, "__func__", value) is function
    ]


def similar(name: str) -> str:
    """What is there under nearly that name, for one that another version of the code had."""
    try:
        owner, attribute = find_owner(name)
    except Exception:
        return ""
    close = difflib.get_close_matches(attribute, dir(owner), n=1)
    return f"; did you mean {close[0]!r}?" if close and close[0] != attribute else ""
