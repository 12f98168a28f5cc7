"""What a recording has seen since its last block, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_schedprof.formats.workload import MICRO, differences, numbers

MOST_GROUPS = 50_000
"""Groups that are known by number at the same time; the oldest are forgotten first."""

TOGETHER_S = 0.001
"""Releases of a client that are nearer than this count as one."""


class Rows:
    """Ends of tasks, releases and workers; they are many and small, so they share blocks."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.times: list[float] = []
        self.durations: list[float] = []
        self.nbytes: list[int] = []
        self.errors = bytearray()
        self.releases: list[tuple[float, int, list[int]]] = []
        self.workers: list[tuple[float, int, bool, int, int]] = []

    def release(self, time: float, client: int, ids: list[int]) -> None:
        """Add a release, to the last one if that was just now: futures go one by one."""
        if self.releases:
            before, whose, known = self.releases[-1]
            if whose == client and time - before < TOGETHER_S and known:
                known.extend(ids)
                return
        self.releases.append((time, client, ids))

    def blocks(self) -> Iterable[dict[str, Any]]:
        """Yield the blocks of what there is."""
        if self.workers:
            yield {"kind": "workers", "workers": self.workers}
        if self.ids:
            yield {
                "kind": "results",
                "ids": differences(self.ids),
                "times": differences(round(time * MICRO) for time in self.times),
                "durations": numbers(round(time * MICRO) for time in self.durations),
                "nbytes": numbers(self.nbytes),
                "errors": bytes(self.errors),
            }
        if self.releases:
            rows = [(time, client, differences(ids)) for time, client, ids in self.releases]
            yield {"kind": "releases", "releases": rows}


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
        dependencies: Iterable[int],
        annotations: Mapping[str, Any],
    ) -> None:
        """Add a task."""
        before = len(self.dependencies)
        self.ids.append(number)
        self.group.append(self.groups.setdefault(group, len(self.groups)))
        self.dependencies.extend(number - each for each in dependencies)
        self.degrees.append(len(self.dependencies) - before)
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
