"""Which result of a replay stands for a recorded one that a client took as it came."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_schedprof.model.workload import Graph


class Order:
    """The first result that comes stands for the recorded one that came first, and so on."""

    def __init__(self, recorded: Mapping[str, Sequence[int]]) -> None:
        """Begin when none has come.

        Args:
            recorded: results that a client took as they came, by prefix, in that order.
        """
        self._waiting = {prefix: iter(numbers) for prefix, numbers in recorded.items()}
        self._taken = {number for numbers in recorded.values() for number in numbers}
        self._actual: dict[int, int] = {}
        self._recorded: dict[int, int] = {}
        self._awaited: dict[int, asyncio.Event] = {}

    def note(self, number: int, prefix: str) -> None:
        """Note that a result has come."""
        recorded = next(self._waiting.get(prefix, iter(())), None)
        if recorded is not None:
            self._actual[recorded], self._recorded[number] = number, recorded
            if (awaited := self._awaited.pop(recorded, None)) is not None:
                awaited.set()

    async def until(self, recorded: int) -> None:
        """Wait until it is known what stands for a result, if it was taken as it came."""
        if recorded in self._taken and recorded not in self._actual:
            await self._awaited.setdefault(recorded, asyncio.Event()).wait()

    def of(self, recorded: int) -> int:
        """Return what stands for a result.

        For one that has not come it is the same one. If that has come early, for another one,
        it is this other one, unless that has come too, and so on.
        """
        if (found := self._actual.get(recorded)) is not None:
            return found
        while recorded in self._recorded:
            recorded = self._recorded[recorded]
        return recorded

    def in_graph(self, graph: Graph) -> Graph:
        """Return a graph that needs the results that stand for those that it needed."""
        if not self._taken:
            return graph
        here = {each.number for each in graph.tasks}
        tasks = [
            replace(task, dependencies=[self._unless(each, here) for each in task.dependencies])
            for task in graph.tasks
        ]
        return replace(
            graph, tasks=tasks, wanted=[self._unless(each, here) for each in graph.wanted]
        )

    def _unless(self, number: int, here: set[int]) -> int:
        return number if number in here else self.of(number)
