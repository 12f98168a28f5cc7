"""Replaces attributes and entries of tables, wraps functions in a step, and undoes that."""

from __future__ import annotations

import difflib
import functools
import inspect
import pkgutil
import types
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

ABSENT: Any = object()
"""Stands for what is not there."""


def replace(holder: Any, name: Any, value: Any, undo: ExitStack) -> None:
    """Replace an attribute, or an entry of a dict, until `undo` is closed.

    What the holder itself had is put back, or nothing is left: an object gets an attribute of its
    own, which hides the one of its class. It stays if somebody has replaced it meanwhile, who may
    call it still.
    """
    before = _table(holder).get(name, ABSENT)
    _put(holder, name, value)
    undo.callback(_put_back, holder, name, value, before)


def wrap(holder: Any, name: Any, wrapped: Callable[[Any], Any], undo: ExitStack) -> None:
    """Replace an attribute, or an entry of a dict, by what a function makes of it."""
    before = holder[name] if isinstance(holder, dict) else getattr(holder, name)
    replace(holder, name, wrapped(before), undo)


def _put_back(holder: Any, name: Any, value: Any, before: Any) -> None:
    if _table(holder).get(name) is value:
        _put(holder, name, before)


def _table(holder: Any) -> Mapping[Any, Any]:
    return holder if isinstance(holder, dict) else vars(holder)


def _put(holder: Any, name: Any, value: Any) -> None:
    is_table = isinstance(holder, dict)
    if value is ABSENT:
        (holder.__delitem__ if is_table else partial(delattr, holder))(name)
    else:
        (holder.__setitem__ if is_table else partial(setattr, holder))(name, value)


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
        member = inspect.getattr_static(owner, attribute)
        function = function_in(member)
        wrapper = self.wrapped(name, function, step_of(function))
        value = wrapper if member is function else type(member)(wrapper)
        replace(owner, attribute, value, self.undo)
        for table, key, value in references(scheduler, function):
            target = getattr(value, "__self__", None)
            mine = wrapper if value is function else types.MethodType(wrapper, target)
            replace(table, key, mine, self.undo)
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


def function_in(member: Any) -> Any:
    """Return the function that an attribute holds, plain or as a static or class method."""
    function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
    is_lazy = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if not callable(function) or isinstance(function, type) or is_lazy:
        raise TypeError("it is no function or coroutine function")
    return function


def references(holder: Any, function: Any) -> list[tuple[dict[Any, Any], Any, Any]]:
    """Return the entries of schedulers' tables that hold the function, mostly as a method.

    In the test's own process those of living schedulers: others will be made of what is patched.
    """
    tables: list[dict[Any, Any]] = []
    for scheduler in holder.living() if hasattr(holder, "living") else [holder]:
        tables += [scheduler.handlers, scheduler.stream_handlers, scheduler._TRANSITIONS_TABLE]
        tables += map(vars, scheduler.periodic_callbacks.values())
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
