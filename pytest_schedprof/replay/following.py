"""Finds out when clients acted: at their own time, or because a result was ready.

A script submits its next graph when it has the result of the last one. On a faster or slower
scheduler it would do so earlier or later, by as much. So every client of a replay has a clock of
its own, which results set.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain

from pytest_schedprof.formats.workload import MICRO
from pytest_schedprof.model.workload import Graph, Release, Workload

CHOICES = 8
"""How often a client must have taken the first result while others were to come. By accident it
takes the first of two results every second time, so that this happens once in 256."""

TICK_S = 2e-6
"""Times of results are rounded to microseconds."""


def taken_in_order(
    events: Sequence[Graph | Release], workload: Workload, prefixes: Mapping[int, str]
) -> dict[str, list[int]]:
    """Return the results that a client took as they came, by prefix, in that order.

    Args:
        events: the client's graphs and releases.
        workload: to which these belong.
        prefixes: of all tasks.
    """
    taking = _Taking(workload, prefixes)
    for event in events:
        taking.see(event)
    taking.pass_to(float("inf"))
    return {prefix: came for prefix, came in taking.came.items() if taking.is_in_order(prefix)}


class _Taking:
    """The results that came to one client, and those that it has taken."""

    def __init__(self, workload: Workload, prefixes: Mapping[int, str]) -> None:
        self._workload, self._prefixes = workload, prefixes
        self.came: dict[str, list[int]] = defaultdict(list)
        self._ranks: dict[int, int] = {}
        self._pending: dict[str, set[int]] = defaultdict(set)
        self._ends: list[tuple[float, int]] = []
        self._wanted: set[int] = set()
        self._taken: dict[str, dict[int, None]] = defaultdict(dict)
        """Results in the order of their first use or release, by prefix."""
        self._choices: dict[str, int] = defaultdict(int)
        self._named: set[str] = set()
        """Prefixes of results that the client used before they came: it chose them by name."""

    def is_in_order(self, prefix: str) -> bool:
        """Whether the client took the results of a prefix as they came, without exception."""
        taken = list(self._taken[prefix])
        is_first = taken == self.came[prefix][: len(taken)]
        return is_first and self._choices[prefix] >= CHOICES and prefix not in self._named

    def see(self, event: Graph | Release) -> None:
        """Note what the client takes, and what it waits for from now on."""
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
        released = set(release.tasks or self._wanted)
        self._take(released)
        self._wanted -= released
        for number in released:
            if (prefix := self._prefixes.get(number)) is not None:
                self._pending[prefix].discard(number)

    def _take(self, numbers: set[int]) -> None:
        came = sorted(numbers & self._ranks.keys(), key=self._ranks.__getitem__)
        new = [number for number in came if number not in self._taken[self._prefixes[number]]]
        for number in new:
            self._taken[self._prefixes[number]][number] = None
        for prefix in {self._prefixes[number] for number in new}:
            self._choices[prefix] += bool(self._pending[prefix])

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


NEAR_S = 0.1
"""An action within this time after a result follows the result, even if the client still waits for
others, as a loop over `as_completed` does."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a client did."""

    event: Graph | Release
    after: Collection[int]
    """Tasks whose results the client had before."""
    ended: float | None
    """The time of the result that the action followed; None if it came at its own time."""
    is_beside: bool
    """Whether the client also waited for other results, whose order does not matter."""
    count: int = 0
    """Number of results that the client had, if it acted because there was one more."""


@dataclass(frozen=True, slots=True)
class Script:
    """All that a client did, in the order of time."""

    actions: Sequence[Action]
    in_order: Mapping[str, Sequence[int]]
    """Results that it took as they came, by prefix, in that order."""


def scripts_of(workload: Workload) -> dict[int, Script]:
    """Return the script of each client, by its number."""
    by_client: dict[int, list[Graph | Release]] = defaultdict(list)
    together: list[Graph | Release] = [*workload.graphs, *workload.releases]
    # Times of releases are rounded: a graph of the same microsecond may be what is released.
    for event in sorted(together, key=lambda event: round(event.time * MICRO)):
        by_client[event.client].append(event)
    prefixes = {task.number: task.group.prefix for task in workload.tasks()}
    scripts = {}
    for client, events in by_client.items():
        in_order = taken_in_order(events, workload, prefixes)
        waiting = _Waiting(workload, {*chain.from_iterable(in_order.values())})
        scripts[client] = Script([waiting.action(event) for event in events], in_order)
    return scripts


class _Waiting:
    """The results for which a client waits."""

    def __init__(self, workload: Workload, in_order: Set[int]) -> None:
        self._workload = workload
        self._in_order = in_order
        """Results that the client takes as they come."""
        self._wanted: set[int] = set()
        self._pending: set[int] = set()
        """Results that will come."""
        self._ends: list[tuple[float, int]] = []
        self._ended: dict[int, float] = {}
        """Results that came since the client last waited for all, in their order."""
        self._count = 0

    def action(self, event: Graph | Release) -> Action:
        """Return an action of the client, and note what it waits for from now on."""
        self._pass_to(event.time)
        action = self._follow(event)
        if isinstance(event, Release):
            released = set(event.tasks) if event.tasks else set(self._wanted)
            self._wanted -= released
            self._pending -= released
        else:
            self._want(event)
        if action.ended is not None and not action.is_beside:
            self._ended.clear()
        return action

    def _follow(self, event: Graph | Release) -> Action:
        had: set[int] = set()
        if isinstance(event, Release):
            results, tasks = self._workload.results, event.tasks or self._wanted
            had = {n for n in tasks if n in self._wanted and n in results} - self._pending
        if not self._pending and self._ended:
            return Action(event, had | self._ended.keys(), [*self._ended.values()][-1], False)
        if isinstance(event, Graph) and (taken := needed_from_outside(event) & self._in_order):
            last = max(self._workload.results[number].time for number in taken)
            return Action(event, taken, last, True)
        cause = self._cause(event, had)
        if cause is not None:
            return Action(event, had | {cause}, self._ended[cause], True)
        last = self._end(next(reversed(self._ended), -1))
        if isinstance(event, Graph) and event.time - last <= NEAR_S:
            return Action(event, (), last, True, self._count)
        return Action(event, had, None, bool(had))

    def _cause(self, event: Graph | Release, had: Collection[int]) -> int | None:
        """Return the last result that came shortly before an event, of those that this concerns."""
        concerned = had
        if isinstance(event, Graph):
            concerned = {number for task in event.tasks for number in task.dependencies}
        near = {n: end for n in concerned if event.time - (end := self._end(n)) <= NEAR_S}
        return max(near, key=near.__getitem__) if near else None

    def _end(self, number: int) -> float:
        return self._ended.get(number, float("-inf"))

    def _pass_to(self, time: float) -> None:
        while self._ends and self._ends[0][0] <= time + TICK_S:
            ended, number = heapq.heappop(self._ends)
            if number in self._pending:
                self._pending.discard(number)
                self._ended[number] = ended
                self._count += 1

    def _want(self, graph: Graph) -> None:
        for number in graph.wanted:
            result = self._workload.results.get(number)
            if number not in self._wanted and result is not None:
                self._pending.add(number)
                heapq.heappush(self._ends, (max(result.time, graph.time), number))
            self._wanted.add(number)


class Order:
    """Replaces the recorded result that came first by the one that comes first, and so on."""

    def __init__(self, recorded: Mapping[str, Sequence[int]]) -> None:
        """Begin without results.

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
        """Wait until the replacement of a result is known, if it was taken as it came."""
        if recorded in self._taken and recorded not in self._actual:
            await self._awaited.setdefault(recorded, asyncio.Event()).wait()

    def of(self, recorded: int) -> int:
        """Return the replacement of a result.

        A result that has not come is replaced by itself. If that has come early, as a replacement
        of another one, it is replaced by this other one, unless this has come too, and so on.
        """
        if (actual := self._actual.get(recorded)) is not None:
            return actual
        while recorded in self._recorded:
            recorded = self._recorded[recorded]
        return recorded

    def in_graph(self, graph: Graph) -> Graph:
        """Return a graph with the replacements of the results that it needs."""
        if not self._taken:
            return graph
        own = {task.number for task in graph.tasks}

        def actual(numbers: Sequence[int]) -> list[int]:
            return [number if number in own else self.of(number) for number in numbers]

        tasks = [replace(task, dependencies=actual(task.dependencies)) for task in graph.tasks]
        return replace(graph, tasks=tasks, wanted=actual(graph.wanted))
