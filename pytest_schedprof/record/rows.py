"""What a recording has seen since its last block, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from pytest_schedprof.formats.workload import MICRO, differences, numbers

MOST_GROUPS = 50_000
"""Groups that are known by number at the same time; the oldest are forgotten first."""

TOGETHER_S = 0.001
"""Releases of a client that are nearer than this count as one."""


class Rows:
    """Ends of tasks, releases and workers; they are many and small, so they share blocks."""

    def __init__(self) -> None:
        self.clients = Numbered()
        self.results: list[tuple[int, float, Any, int | None, bool]] = []
        """Number, time, what was begun and ended when, size, and whether it erred."""
        self.workers: list[tuple[float, int, bool, int, int, bool]] = []
        self.releases: list[tuple[float, str, int]] = []
        """Time, client, and a task that it needs no more."""
        self._joined: list[tuple[float, int, list[int]]] = []
        """The same with all tasks of one moment, and the client's number."""

    def release_all(self, time: float, client: str) -> None:
        """Note that a client has left and needs nothing any more: no task is named."""
        if self.clients.known(client) is not None:
            self.join_releases()
            self._joined.append((time, self.clients.of(client), []))
            self.clients.forget(client)

    def join_releases(self) -> None:
        """Make one of releases that are near to each other, for futures go one by one.

        It has the time of the first. So this is called before each graph, which may need what
        was released right after it.
        """
        begun, whose = float("-inf"), None
        ids: list[int] = []
        for time, client, number in self.releases:
            if client == whose and time - begun < TOGETHER_S:
                ids.append(number)
            else:
                begun, whose, ids = time, client, [number]
                self._joined.append((time, self.clients.of(client), ids))
        self.releases.clear()

    def take(self, begun: float) -> list[dict[str, Any]]:
        """Return the blocks of what there is, in a file that was begun at a time; forget that."""
        self.join_releases()
        blocks: list[dict[str, Any]] = []
        if self.workers:
            blocks.append({"kind": "workers", "workers": self.workers[:]})
        if self.results:
            blocks.append(self._results_block(begun))
        if self._joined:
            blocks.append(self._releases_block(begun))
        for each in (self.workers, self.results, self._joined):
            each.clear()
        return blocks

    def _results_block(self, begun: float) -> dict[str, Any]:
        ids, times, startstops, nbytes, errors = zip(*self.results, strict=True)
        return {
            "kind": "results",
            "ids": differences(ids),
            "times": differences([round((time - begun) * MICRO) for time in times]),
            "durations": numbers(_micros(startstops)),
            "nbytes": numbers([each or 0 for each in nbytes]),
            "errors": bytes(errors),
        }

    def _releases_block(self, begun: float) -> dict[str, Any]:
        times, clients, ids = zip(*self._joined, strict=True)
        return {
            "kind": "releases",
            "times": differences([round((time - begun) * MICRO) for time in times]),
            "clients": numbers(clients),
            "counts": numbers(map(len, ids)),
            "ids": differences(chain.from_iterable(ids)),
        }


def _micros(startstops: Iterable[Any]) -> list[int]:
    """Return how long tasks were computed."""
    found = []
    for of_task in startstops:
        spent = 0.0
        for each in of_task or ():
            if each["action"] == "compute":
                spent += each["stop"] - each["start"]
        found.append(round(spent * MICRO))
    return found


class GraphRows:
    """The tasks of one graph, as columns."""

    def __init__(self, time: float, client: int) -> None:
        self.time, self.client = time, client
        self.wanted: list[int] = []
        self._groups: dict[tuple[str, int | None], int] = {}
        self._annotations: list[Mapping[str, Any]] = []
        self._texts: dict[str, int] = {}
        """Numbers of annotations by their text."""
        self._ids: list[int] = []
        self._group: list[int] = []
        self._degrees: list[int] = []
        self._dependencies: list[int] = []
        self._annotation: list[int] = []

    def group(self, group: tuple[str, int | None]) -> int:
        """Return the number of a group in this block."""
        return self._groups.setdefault(group, len(self._groups))

    def annotations(self, annotations: Mapping[str, Any]) -> int:
        """Return the number of the annotations of a task in this block."""
        text = repr(annotations) if annotations else ""
        if text not in self._texts:
            self._texts[text] = len(self._annotations)
            self._annotations.append(annotations)
        return self._texts[text]

    def add(
        self,
        ids: Sequence[int],
        group: Sequence[int],
        annotation: Sequence[int],
        needed: tuple[Sequence[int], Sequence[int]] | None = None,
    ) -> None:
        """Add tasks.

        Args:
            ids: their numbers.
            group: those of their groups.
            annotation: those of their annotations.
            needed: how many others each one needs, and how far back the numbers of these are.
        """
        degrees, dependencies = needed or ([0] * len(ids), ())
        self._ids += ids
        self._group += group
        self._annotation += annotation
        self._degrees += degrees
        self._dependencies += dependencies

    def block(self) -> dict[str, Any]:
        """Return the block."""
        return {
            "kind": "graph",
            "time": self.time,
            "client": self.client,
            "groups": list(self._groups),
            "annotations": self._annotations,
            "ids": differences(self._ids),
            "group": numbers(self._group),
            "degrees": numbers(self._degrees),
            "dependencies": numbers(self._dependencies),
            "annotation": numbers(self._annotation),
            "wanted": differences(self.wanted),
        }


class Numbered:
    """Gives each thing the next number when it is first seen."""

    def __init__(self, most: int = 0) -> None:
        self._numbers: dict[Any, int] = {}
        self._next = 0
        self._most = most

    def of(self, thing: Any) -> int:
        """Return its number."""
        found = self._numbers.get(thing)
        if found is None:
            found = self._numbers[thing] = self._next
            self._next += 1
            if self._most and len(self._numbers) > self._most:
                del self._numbers[next(iter(self._numbers))]
        return found

    def known(self, thing: Any) -> int | None:
        """Return its number, if it has one."""
        return self._numbers.get(thing)

    def forget(self, thing: Any) -> None:
        """Forget it, so that its number is not held for ever."""
        self._numbers.pop(thing, None)
