"""What workers hold in results over time, in a few hundred points."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

POINTS = 400
"""Most points that are kept. Each is the peak of a stretch of time; all stretches are as long."""

STRETCH_S = 0.01
"""Length of a stretch at first. It doubles whenever there are too many."""


class Holding:
    """The peaks, in each stretch of time, of what all workers hold and of what the worst holds."""

    def __init__(self, held: Mapping[str, int], now: float) -> None:
        self._begun = now
        self._stretch_s = STRETCH_S
        self._held = dict(held)
        self._all = sum(held.values())
        self._heap = [(-each, name) for name, each in held.items()]
        heapify(self._heap)
        self._points: dict[int, tuple[int, int]] = {}
        self._add(0)

    def note(self, now: float, name: str, held: int) -> None:
        """Note that a worker holds so many bytes from now on."""
        self._all += held - self._held.get(name, 0)
        self._held[name] = held
        heappush(self._heap, (-held, name))
        number = int((now - self._begun) / self._stretch_s)
        if number >= POINTS:
            self._thin(number)
            number = int((now - self._begun) / self._stretch_s)
        self._add(number)

    def told(self) -> dict[str, list[int]]:
        """Return microseconds since the window began, and the bytes of all and of the worst."""
        starts = [round(number * self._stretch_s * 1e6) for number in self._points]
        return {
            "at": starts,
            "all": [everything for everything, _ in self._points.values()],
            "worst": [worst for _, worst in self._points.values()],
        }

    def _add(self, number: int) -> None:
        before = self._points.get(number, (0, 0))
        self._points[number] = max(before[0], self._all), max(before[1], self._worst())

    def _worst(self) -> int:
        """Return the most that a worker holds now; older entries of the heap are dropped."""
        while self._heap and self._held[self._heap[0][1]] != -self._heap[0][0]:
            heappop(self._heap)
        return -self._heap[0][0] if self._heap else 0

    def _thin(self, number: int) -> None:
        """Make the stretches long enough for the number of one to be below the most."""
        times = 1
        while number // times >= POINTS:
            times *= 2
        points, self._points = self._points, {}
        self._stretch_s *= times
        for each, (everything, worst) in points.items():
            before = self._points.get(each // times, (0, 0))
            self._points[each // times] = max(before[0], everything), max(before[1], worst)
