"""Which results a client took in the order in which they came.

A loop over `as_completed` takes whichever result comes next. On another cluster results come in
another order, and the loop takes others. So what such a client did is about the first result that
came, the second, and so on, and not about certain tasks.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence

from pytest_schedprof.model.workload import Graph, Release, Workload

CHOICES = 8
"""How often a client must have taken what came first while others were to come. By accident two
results are taken in the order in which they come once in two times, so this happens once in 256."""

TICK_S = 2e-6
"""Times of results are rounded to microseconds."""


def taken_in_order(
    events: Sequence[Graph | Release], workload: Workload, prefixes: Mapping[int, str]
) -> dict[str, list[int]]:
    """Return the results that a client took as they came, by prefix, in that order.

    Args:
        events: what the client did.
        workload: to which these belong.
        prefixes: those of all tasks.
    """
    taking = _Taking(workload, prefixes)
    for event in events:
        taking.see(event)
    taking.pass_to(float("inf"))
    return {prefix: came for prefix, came in taking.came.items() if taking.is_in_order(prefix)}


class _Taking:
    """What one client has got, and what it has taken of that."""

    def __init__(self, workload: Workload, prefixes: Mapping[int, str]) -> None:
        self._workload, self._prefixes = workload, prefixes
        self.came: dict[str, list[int]] = defaultdict(list)
        self._ranks: dict[int, int] = {}
        self._pending: dict[str, set[int]] = defaultdict(set)
        self._ends: list[tuple[float, int]] = []
        self._wanted: set[int] = set()
        self._taken: dict[str, dict[int, None]] = defaultdict(dict)
        """In the order in which they were first used or released."""
        self._choices: dict[str, int] = defaultdict(int)
        self._named: set[str] = set()
        """Prefixes of results that were used before they came: the client knew which ones."""

    def is_in_order(self, prefix: str) -> bool:
        """Whether the client took the results of a prefix as they came, and left out none."""
        taken = list(self._taken[prefix])
        is_first = taken == self.came[prefix][: len(taken)]
        return is_first and self._choices[prefix] >= CHOICES and prefix not in self._named

    def see(self, event: Graph | Release) -> None:
        """Note what the client takes, and what it wants from now on."""
        self.pass_to(event.time)
        if isinstance(event, Release):
            self._release(event)
        else:
            self._use(event)
            self._want(event)

    def pass_to(self, time: float) -> None:
        """Let results come until a time."""
        while self._ends and self._ends[0][0] <= time + TICK_S:
            _, number = heapq.heappop(self._ends)
            prefix = self._prefixes[number]
            if number in self._pending[prefix]:
                self._pending[prefix].discard(number)
                self._ranks[number] = len(self.came[prefix])
                self.came[prefix].append(number)

    def _use(self, graph: Graph) -> None:
        needed = needed_from_outside(graph)
        for number in needed & self._wanted - self._ranks.keys():
            self._named.add(self._prefixes[number])
        self._take(needed)

    def _release(self, release: Release) -> None:
        gone = set(release.tasks or self._wanted)
        self._take(gone)
        self._wanted -= gone
        for number in gone:
            if (prefix := self._prefixes.get(number)) is not None:
                self._pending[prefix].discard(number)

    def _take(self, numbers: set[int]) -> None:
        here = [each for each in numbers & self._ranks.keys() if not self._is_taken(each)]
        taken = sorted(here, key=self._ranks.__getitem__)
        for number in taken:
            self._taken[self._prefixes[number]][number] = None
        for prefix in {self._prefixes[number] for number in taken}:
            self._choices[prefix] += bool(self._pending[prefix])

    def _is_taken(self, number: int) -> bool:
        return number in self._taken[self._prefixes[number]]

    def _want(self, graph: Graph) -> None:
        for number in graph.wanted:
            result = self._workload.results.get(number)
            if result is not None and number not in self._wanted and number not in self._ranks:
                self._pending[self._prefixes[number]].add(number)
                heapq.heappush(self._ends, (max(result.time, graph.time), number))
        self._wanted.update(graph.wanted)


def needed_from_outside(graph: Graph) -> set[int]:
    """Return the tasks of other graphs that a graph needs."""
    needed = {number for task in graph.tasks for number in task.dependencies}
    return needed - {task.number for task in graph.tasks}
