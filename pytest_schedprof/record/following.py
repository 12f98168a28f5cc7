"""When each client did what it did: at its own time, or because a result was ready.

A script submits its next graph when it has the result of the last one. In a replay on a faster or a
slower scheduler it would do so earlier or later, by as much. So each client has a clock of its own,
which results set.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_schedprof.model.workload import Graph, Release, Workload

NEAR_S = 0.1
"""What a client does within this time after a result follows the result, though it waits for others
still, as a loop over `as_completed` does."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a client did."""

    event: Graph | Release
    after: Sequence[int]
    """Tasks whose results the client had when it did this, and had not before."""
    ended: float | None
    """When the last of them ended; None if the client did this at its own time."""


def actions_of(workload: Workload) -> dict[int, list[Action]]:
    """Return what each client did, in the order of time."""
    events: dict[int, list[Graph | Release]] = defaultdict(list)
    together: list[Graph | Release] = [*workload.graphs, *workload.releases]
    for event in sorted(together, key=lambda each: each.time):
        events[event.client].append(event)
    return {client: _with_causes(each, workload) for client, each in events.items()}


def _with_causes(events: Sequence[Graph | Release], workload: Workload) -> list[Action]:
    waiting = _Waiting(workload)
    return [waiting.action(event) for event in events]


class _Waiting:
    """The results that a client waits for."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._wanted: set[int] = set()
        self._pending: set[int] = set()
        """Those that have not ended yet, but will."""
        self._ends: list[tuple[float, int]] = []

    def action(self, event: Graph | Release) -> Action:
        """Return what a client did, and note what it wants from now on."""
        ended, last = self._ended_by(event.time)
        follows = ended and (not self._pending or event.time - last <= NEAR_S)
        if isinstance(event, Release):
            gone = self._wanted.intersection(event.tasks) if event.tasks else set(self._wanted)
            had = gone - self._pending
            self._wanted -= gone
            self._pending -= gone
            after = [*ended, *had.difference(ended)] if follows else list(had)
        else:
            after = ended if follows else []
            self._want(event)
        return Action(event, after, last if follows else None)

    def _ended_by(self, time: float) -> tuple[list[int], float]:
        """Return what has ended since the client last did anything, and when the last of it did."""
        found, last = [], 0.0
        while self._ends and self._ends[0][0] <= time:
            ended, number = heapq.heappop(self._ends)
            if number in self._pending:
                self._pending.discard(number)
                found.append(number)
                last = ended
        return found, last

    def _want(self, graph: Graph) -> None:
        for number in graph.wanted:
            result = self._workload.results.get(number)
            if number not in self._wanted and result is not None:
                self._pending.add(number)
                heapq.heappush(self._ends, (max(result.time, graph.time), number))
            self._wanted.add(number)
