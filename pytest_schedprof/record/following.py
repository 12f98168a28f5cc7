"""When each client did what it did: at its own time, or because a result was ready.

A script submits its next graph when it has the result of the last one. In a replay on a faster or a
slower scheduler it would do so earlier or later, by as much. So each client has a clock of its own,
which results set.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field

from pytest_schedprof.formats.workload import MICRO
from pytest_schedprof.model.workload import Graph, Release, Workload
from pytest_schedprof.record.taking import TICK_S, needed_from_outside, taken_in_order

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
