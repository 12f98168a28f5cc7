"""Numbers of the tasks that a scheduler knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import not_
from typing import Any

MORE = 1000


class KnownTasks:
    """Gives each task the next number when it is first seen.

    A task that was forgotten and comes again under its old key is a new one, so numbers belong to
    the scheduler's states of tasks. To be told of the end of each would cost a call for each
    transition. Instead the states are held here, and a few are looked at now and then.
    """

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        """By `id`, which is faster than the hash of a state."""
        self._fresh: list[Any] = []
        """What the numbers belong to, so that no other state can have the `id` of one."""
        self._old: list[Any] = []
        """The same, of those to look at before the others."""
        self._next = self._swept = 0

    def of(self, state: Any) -> int | None:
        """Return the number of a task, if it has one."""
        return self.numbers.get(id(state))

    def add(self, states: Sequence[Any]) -> range:
        """Number new tasks."""
        added = range(self._next, self._next + len(states))
        self._next = added.stop
        self.numbers.update(zip(map(id, states), added, strict=True))
        self._fresh += states
        return added

    @property
    def next(self) -> int:
        """The number of the next task."""
        return self._next

    def sweep(self, tasks: Mapping[Any, Any]) -> None:
        """Let go of tasks that the scheduler forgot: look at two for each that came meanwhile."""
        most = MORE + 2 * (self._next - self._swept)
        self._swept = self._next
        if not self._old:
            self._old, self._fresh = self._fresh, []
        states, state_of = self._old[-most:], tasks.get
        del self._old[-most:]
        there = [state_of(each.key) is each for each in states]
        self._fresh.extend(compress(states, there))
        for each in compress(states, map(not_, there)):
            del self.numbers[id(each)]

    def forget(self) -> None:
        """Know no task any more."""
        for each in (self.numbers, self._fresh, self._old):
            each.clear()
