"""When each client did what it did: at its own time, or because a result was ready.

A script submits its next graph when it has the result of the last one. In a replay on a faster or a
slower scheduler it would do so earlier or later, by as much. So each client has a clock of its own,
which results set.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from pytest_schedprof.formats.workload import MICRO
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


NEAR_S = 0.1
"""What a client does within this time after a result follows the result, though it waits for others
still, as a loop over `as_completed` does."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a client did."""

    event: Graph | Release
    after: Collection[int]
    """Tasks whose results it had then."""
    ended: float | None
    """When the result came that it followed; None if it came at its own time."""
    is_beside: bool
    """Whether the client waited for other results too, whose order does not matter."""
    count: int = 0
    """How many results the client had had, if it did this because there was one more."""


@dataclass(frozen=True, slots=True)
class Script:
    """What a client did, in the order of time."""

    actions: Sequence[Action]
    in_order: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Results that it took as they came, by prefix, in that order."""


def scripts_of(workload: Workload) -> dict[int, Script]:
    """Return what each client did."""
    events: dict[int, list[Graph | Release]] = defaultdict(list)
    together: list[Graph | Release] = [*workload.graphs, *workload.releases]
    # Times of releases are rounded: a graph of the same microsecond may be what is released.
    for event in sorted(together, key=lambda each: round(each.time * MICRO)):
        events[event.client].append(event)
    prefixes = {each.number: each.group.prefix for each in workload.tasks()}
    return {client: _script(each, workload, prefixes) for client, each in events.items()}


def _script(
    events: Sequence[Graph | Release], workload: Workload, prefixes: Mapping[int, str]
) -> Script:
    in_order = taken_in_order(events, workload, prefixes)
    waiting = _Waiting(workload, {number for each in in_order.values() for number in each})
    return Script([waiting.action(event) for event in events], in_order)


class _Waiting:
    """The results that a client waits for."""

    def __init__(self, workload: Workload, in_order: Set[int]) -> None:
        self._workload = workload
        self._in_order = in_order
        """Those that the client takes as they come."""
        self._wanted: set[int] = set()
        self._pending: set[int] = set()
        """Those that have not ended yet, but will."""
        self._ends: list[tuple[float, int]] = []
        self._ended: dict[int, float] = {}
        """Those that ended since the client last waited for all, the last one at the end."""
        self._count = 0

    def action(self, event: Graph | Release) -> Action:
        """Return what a client did, and note what it wants from now on."""
        self._pass_to(event.time)
        action = self._follow(event)
        if isinstance(event, Release):
            gone = set(event.tasks) if event.tasks else set(self._wanted)
            self._wanted -= gone
            self._pending -= gone
        else:
            self._want(event)
        if action.ended is not None and not action.is_beside:
            self._ended.clear()
        return action

    def _follow(self, event: Graph | Release) -> Action:
        had: set[int] = set()
        if isinstance(event, Release):
            tasks = event.tasks or self._wanted
            had = {each for each in tasks if each in self._wanted and self._has_ended(each)}
        if not self._pending and self._ended:
            return Action(event, had | self._ended.keys(), [*self._ended.values()][-1], False)
        if isinstance(event, Graph) and (taken := needed_from_outside(event) & self._in_order):
            return Action(event, taken, max(map(self._end_of, taken)), True)
        cause = self._cause(event, had)
        if cause is not None:
            return Action(event, had | {cause}, self._ended[cause], True)
        last = self._end(next(reversed(self._ended), -1))
        if isinstance(event, Graph) and event.time - last <= NEAR_S:
            return Action(event, (), last, True, self._count)
        return Action(event, had, None, bool(had))

    def _end_of(self, number: int) -> float:
        return self._workload.results[number].time

    def _has_ended(self, number: int) -> bool:
        return number in self._workload.results and number not in self._pending

    def _cause(self, event: Graph | Release, had: Collection[int]) -> int | None:
        """Return the task that had just ended, of those that it is about."""
        about = had
        if isinstance(event, Graph):
            about = {number for task in event.tasks for number in task.dependencies}
        near = {each: end for each in about if event.time - (end := self._end(each)) <= NEAR_S}
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
