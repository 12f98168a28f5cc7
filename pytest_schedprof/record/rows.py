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
        self.results: list[tuple[int, float, Any, int, bool]] = []
        """Number, time, what was begun and ended when, size, and whether it erred."""
        self.releases: list[tuple[float, int, Sequence[int]]] = []
        """Time, client, and the tasks that it needs no more."""
        self.workers: list[tuple[float, int, bool, int, int, bool]] = []

    def blocks(self, begun: float) -> Iterable[dict[str, Any]]:
        """Yield the blocks of what there is, in a file that was begun at a time."""
        if self.workers:
            yield {"kind": "workers", "workers": self.workers}
        if self.results:
            yield self._results(begun)
        if self.releases:
            yield self._releases(begun)

    def _results(self, begun: float) -> dict[str, Any]:
        ids, times, startstops, nbytes, errors = zip(*self.results, strict=True)
        return {
            "kind": "results",
            "ids": differences(ids),
            "times": differences([round((time - begun) * MICRO) for time in times]),
            "durations": numbers([_micros(each) for each in startstops]),
            "nbytes": numbers(nbytes),
            "errors": bytes(errors),
        }

    def _releases(self, begun: float) -> dict[str, Any]:
        times, clients, ids = zip(*self._joined_releases(), strict=True)
        return {
            "kind": "releases",
            "times": differences([round((time - begun) * MICRO) for time in times]),
            "clients": numbers(clients),
            "counts": numbers(map(len, ids)),
            "ids": differences(list(chain.from_iterable(ids))),
        }

    def _joined_releases(self) -> list[tuple[float, int, Sequence[int]]]:
        """Return the releases; those of one moment are one, for futures go one by one."""
        joined: list[tuple[float, int, Any]] = []
        last, whose = float("-inf"), None
        for time, client, ids in self.releases:
            if ids and client == whose and time - last < TOGETHER_S and joined[-1][2]:
                joined[-1][2].extend(ids)
            else:
                joined.append((time, client, list(ids)))
                last, whose = time, client
        return joined


def _micros(startstops: Any) -> int:
    """Return how long a task was computed."""
    spent = 0.0
    for each in startstops or ():
        if each["action"] == "compute":
            spent += each["stop"] - each["start"]
    return round(spent * MICRO)


class GraphRows:
    """The tasks of one graph."""

    def __init__(self, time: float, client: int) -> None:
        self.time, self.client = time, client
        self.groups: dict[tuple[str, int | None], int] = {}
        self.annotations: list[Mapping[str, Any]] = []
        self.numbers: dict[str, int] = {}
        """Annotations by their text."""
        self.ids: list[int] = []
        self.group: list[int] = []
        self.degrees: list[int] = []
        self.dependencies: list[int] = []
        self.annotation: list[int] = []
        self.wanted: list[int] = []

    def add(
        self,
        number: int,
        group: tuple[str, int | None],
        dependencies: Sequence[int],
        annotations: Mapping[str, Any],
    ) -> None:
        """Add a task."""
        self.ids.append(number)
        self.group.append(self.groups.setdefault(group, len(self.groups)))
        self.degrees.append(len(dependencies))
        if dependencies:
            self.dependencies.extend([number - each for each in dependencies])
        text = repr(annotations) if annotations else ""
        if text not in self.numbers:
            self.numbers[text] = len(self.annotations)
            self.annotations.append(annotations)
        self.annotation.append(self.numbers[text])

    def block(self) -> dict[str, Any]:
        """Return the block."""
        return {
            "kind": "graph",
            "time": self.time,
            "client": self.client,
            "groups": list(self.groups),
            "annotations": self.annotations,
            "ids": differences(self.ids),
            "group": numbers(self.group),
            "degrees": numbers(self.degrees),
            "dependencies": numbers(self.dependencies),
            "annotation": numbers(self.annotation),
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
