"""Handlers and methods of a scheduler that are replaced for a while, and plugins for a while."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

ABSENT: Any = object()
"""Stands for what is not there."""

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


class Places:
    """What was replaced, in tables of handlers and in the attributes of a scheduler."""

    def __init__(self) -> None:
        self._replaced: list[tuple[dict[Any, Any], Any, Any, Any]] = []
        """Table, key, what stands there now, and what stood there before."""

    def handler(self, table: dict[str, Any], name: str, wrap: Wrap) -> None:
        """Wrap the handler of a message."""
        self._put(table, name, wrap(table[name]))

    def method(self, owner: Any, name: str, wrap: Wrap) -> None:
        """Wrap a method that an object calls of itself."""
        self._put(vars(owner), name, wrap(getattr(owner, name)))

    def _put(self, table: dict[str, Any], name: str, mine: Any) -> None:
        self._replaced.append((table, name, mine, table.get(name, ABSENT)))
        table[name] = mine

    def put_back(self) -> None:
        """Put back what was there, unless somebody else has replaced it, who calls it still."""
        for table, name, mine, before in self._replaced:
            if table.get(name) is not mine:
                continue
            if before is ABSENT:
                del table[name]
            else:
                table[name] = before
        self._replaced.clear()


class Presence:
    """Makes a plugin one of the scheduler's while something is under way that it waits for.

    A scheduler calls each of its plugins for each transition of each task. For one that does
    nothing then, that is a hundredth of all that the scheduler does.
    """

    def __init__(self, plugins: dict[str, Any], name: str, plugin: Any) -> None:
        self._plugins, self._name, self._plugin = plugins, name, plugin
        self._under_way = 0

    def __enter__(self) -> None:
        self._under_way += 1
        self._plugins[self._name] = self._plugin

    def __exit__(self, *error: object) -> None:
        self._under_way -= 1
        if not self._under_way:
            self.end()

    def told(self) -> None:
        """Leave before the end of what is under way: what was waited for has come."""
        if self._under_way <= 1:
            self.end()

    def end(self) -> None:
        """Leave the plugins."""
        self._plugins.pop(self._name, None)

    def during(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function, or a coroutine function, during which the plugin is there."""

        @functools.wraps(real)
        def call(*args: Any, **keywords: Any) -> Any:
            with self:
                return real(*args, **keywords)

        @functools.wraps(real)
        async def coroutine(*args: Any, **keywords: Any) -> Any:
            with self:
                return await real(*args, **keywords)

        return coroutine if inspect.iscoroutinefunction(real) else call
