"""Pictures of decisions in virtual time: task streams, and what workers held."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from pytest_schedprof.formats.charts import Scale, box, in_page, line, path, time_axis, words
from pytest_schedprof.formats.counted import Decided
from pytest_schedprof.model.comparison import Choice, Difference, FirstDifference
from pytest_schedprof.report.words import size_of

WIDTH, ROWS_HEIGHT, CURVE_HEIGHT = 560, 360, 120
"""Size of a stream without its labels, and height of a curve."""

MICROSECONDS = 1e6

GAP = 0.6
"""Tasks of one kind on one thread are drawn as one if the gap between them is narrower."""

MOST_WORKERS = 40
"""Rows of a stream. Workers that the first difference is about are among them."""

COLOURS = 8

Area = tuple[str, int, str]
"""All tasks of one kind: its name, its colour and a path."""

Side = tuple[str, Decided, Choice | None]
"""The name of a side, what it decided, and the decision to mark."""

Curve = tuple[str, str, list[tuple[str, list[tuple[float, float]]]]]
"""A title, the most that was held, and class and points of each side's line."""


class Picture:
    """One round of a test, of one side or of two, the earlier one first, on one scale."""

    def __init__(
        self, sides: Sequence[tuple[str, Decided]], parting: FirstDifference | None
    ) -> None:
        """Take the name and the decisions of each side.

        Args:
            sides: the earlier one first.
            parting: whose first difference is marked; None if there is nothing to mark.
        """
        decided = [side for _, side in sides]
        choices = _choices(parting, len(sides))
        names = dict.fromkeys(_sorted(name for side in decided for name in side.workers))
        self.sides: list[Side] = [
            (*side, choice) for side, choice in zip(sides, choices, strict=True)
        ]
        self.kinds = _kinds(decided)
        self.colours = {kind: number % COLOURS for number, kind in enumerate(self.kinds)}
        shown = _shown(list(names), parting)
        self.hidden = len(names) - len(shown)
        """Workers that have no row."""
        self.note = ""
        if parting is not None and parting.rounds > 1:
            self.note = f"round {parting.round} of {parting.rounds}"
        self._x = Scale(max(map(_end, decided), default=0) or 1, WIDTH)
        """Of microseconds."""
        self._row = max(8.0, min(24.0, ROWS_HEIGHT / max(1, len(shown))))
        """Height of a worker's row."""
        self._tops = {name: number * self._row for number, name in enumerate(shown)}

    @property
    def height(self) -> float:
        return self._row * len(self._tops)

    @property
    def rows(self) -> list[tuple[float, str]]:
        """Middle and name of each worker's row."""
        tops = self._tops.items()
        return [(top + self._row / 2, name.removeprefix("worker-")) for name, top in tops]

    def stream(self, title: str, decided: Decided, choice: Choice | None) -> str:
        parts = [words(-4, middle + 3, name, class_="worker") for middle, name in self.rows]
        parts += time_axis(self._x, 0, self.height, MICROSECONDS)
        for kind, colour, area in self.areas(decided):
            parts.append(path(area, title=kind, class_=f"s{colour}"))
        if fetched := "".join(self._transfers(decided)):
            parts.append(path(fetched, title="fetching dependencies", class_="fetched"))
        if choice:
            mark = f"M{self.mark(choice):g} -4V{self.height + 4:g}"
            parts.append(path(mark, title="the first decision that differs", class_="mark"))
            if place := self.marked(decided, choice):
                parts.append(box(*place, title="the task that it is about", class_="mark"))
        view = (-34, -4, WIDTH + 44, self.height + 22)
        return in_page(f"task stream {title}", view, parts)

    def mark(self, choice: Choice) -> float:
        return self._x(choice.at_s * MICROSECONDS)

    def areas(self, decided: Decided) -> list[Area]:
        areas: dict[str, list[str]] = {}
        for kind, left, width, top, height in self._bars(decided):
            areas.setdefault(kind, []).append(f"M{left:g} {top:g}h{width:g}v{height:g}h-{width:g}z")
        return [(kind, self.colours[kind], "".join(paths)) for kind, paths in areas.items()]

    def _bars(self, decided: Decided) -> Iterator[tuple[str, float, float, float, float]]:
        """Yield kind, left, width, top and height of what is drawn for tasks."""
        for name, tasks in _by_worker(decided, self._tops).items():
            threads = _threads(tasks)
            height = round((self._row - 1) / max(1, len(threads)), 1)
            for number, thread in enumerate(threads):
                top = round(self._tops[name] + number * height, 1)
                for kind, left, right in self._merged(thread):
                    yield kind, left, round(max(0.4, right - left), 1), top, height

    def _merged(self, thread: list[tuple[int, int, str]]) -> list[tuple[str, float, float]]:
        """Return kind, left and right of the tasks of one thread, as few as one can see."""
        merged: list[tuple[str, float, float]] = []
        for start, stop, key in thread:
            kind, left, right = kind_of(key), self._x(start), self._x(stop)
            if merged and merged[-1][0] == kind and left - merged[-1][2] < GAP:
                _, left, before = merged.pop()
                right = max(right, before)
            merged.append((kind, left, right))
        return merged

    def _transfers(self, decided: Decided) -> Iterator[str]:
        """Yield the steps of a path for the transfers of a side."""
        transfers = decided.transfers
        rows = zip(transfers.worker, transfers.start, transfers.took, strict=True)
        last: dict[int, float] = {}
        for worker, start, took in sorted(rows):
            left, right = self._x(start), self._x(start + took)
            name = decided.workers[worker]
            if name in self._tops and right - last.get(worker, -1.0) >= 0.3:
                last[worker] = right
                top = self._tops[name] + self._row - 2
                yield f"M{left:g} {top:g}h{max(0.4, right - left):.1f}v1.6H{left:g}z"

    def marked(self, decided: Decided, choice: Choice) -> tuple[float, float, float, float] | None:
        """Return the rectangle of the task that a decision is about, where it ran."""
        for key, worker, start, stop in decided.runs():
            is_later = start >= choice.at_s * MICROSECONDS
            if key == choice.key and is_later and worker in self._tops:
                left = self._x(start)
                top = self._tops[worker] - 1
                return left - 1, top, max(3.0, self._x(stop) - left + 2), self._row
        return None

    def curves(self) -> Iterator[Curve]:
        """Yield what was held over time, on one scale for both sides."""
        holdings = [decided.held for _, decided, _ in self.sides]
        yield self._curve("all workers together", [(held.at, held.all) for held in holdings])
        worst = [(held.at, held.worst) for held in holdings]
        yield self._curve("the worker that held most", worst)

    def _curve(self, title: str, series: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Curve:
        most = max((amount for _, amounts in series for amount in amounts), default=0)
        y = Scale(most, 4 - CURVE_HEIGHT, CURVE_HEIGHT - 2)
        lines = [
            (name, [(min(self._x(t), float(WIDTH)), y(a)) for t, a in zip(*sides, strict=True)])
            for name, sides in zip(("old", "new")[-len(series) :], series, strict=True)
        ]
        return title, size_of(most), lines

    def curve(
        self, title: str, most: str, lines: list[tuple[str, list[tuple[float, float]]]]
    ) -> str:
        parts = [*time_axis(self._x, 0, CURVE_HEIGHT, MICROSECONDS)]
        parts += [line(points, class_=name) for name, points in lines]
        if self.first_mark is not None:
            parts.append(path(f"M{self.first_mark:g} -4V{CURVE_HEIGHT + 4}", class_="mark"))
        view = (-34, -4, WIDTH + 44, CURVE_HEIGHT + 26)
        return in_page(f"held by {title}, at most {most}", view, parts)

    @property
    def first_mark(self) -> float | None:
        """Place of the first difference; None if there is nothing to mark."""
        marks = [self.mark(choice) for _, _, choice in self.sides if choice is not None]
        return min(marks, default=None)


def kind_of(key: str) -> str:
    """Return the kind of a task, as dask names it: its key without what makes it unique."""
    quoted = re.search(r"['\"]([^'\"]*)", key) if key.startswith("(") else None
    first, *words = (quoted[1] if quoted else key).split("-")
    kept = [first]
    for word in words:
        if not word.isalpha() or re.fullmatch("[a-f]{8}", word):
            break
        kept.append(word)
    return "-".join(kept) or key


def _by_worker(decided: Decided, tops: dict[str, float]) -> dict[str, list[tuple[int, int, str]]]:
    """Return start, stop and key of each worker's tasks, in order."""
    by_worker: dict[str, list[tuple[int, int, str]]] = {}
    for key, worker, start, stop in decided.runs():
        if worker in tops:
            by_worker.setdefault(worker, []).append((start, stop, key))
    return {name: sorted(rows) for name, rows in by_worker.items()}


def _threads(tasks: list[tuple[int, int, str]]) -> list[list[tuple[int, int, str]]]:
    """Share tasks out to as few threads as they need."""
    threads: list[list[tuple[int, int, str]]] = []
    for task in tasks:
        free = next((thread for thread in threads if thread[-1][1] <= task[0]), None)
        if free is None:
            threads.append([task])
        else:
            free.append(task)
    return threads


def _kinds(decided: Iterable[Decided]) -> dict[str, int]:
    """Return the kinds of tasks and how many there are of each on the later side."""
    counts: dict[str, int] = {}
    for side in decided:
        counts = dict.fromkeys(counts, 0)
        for key in side.tasks.key:
            kind = kind_of(side.keys[key])
            counts[kind] = counts.get(kind, 0) + 1
    return counts


def _end(decided: Decided) -> int:
    return max((stop for *_, stop in decided.runs()), default=0)


def _sorted(names: Iterable[str]) -> list[str]:
    """Sort workers by number."""
    return sorted(names, key=lambda name: (len(name), name))


def _shown(names: list[str], parting: FirstDifference | None) -> list[str]:
    """Return the workers that get a row."""
    chosen = [
        worker.name
        for choice in (parting.before, parting.after, parting.later) if choice is not None
        for worker in (choice.worker, choice.best_other) if worker is not None
    ] if parting else []  # fmt: skip
    first = dict.fromkeys([*(name for name in chosen if name in names), *names])
    return _sorted(list(first)[:MOST_WORKERS])


def _choices(parting: FirstDifference | None, count: int) -> list[Choice | None]:
    """Return the decision to mark on each side."""
    if parting is None or parting.what is Difference.GRAPH:
        return [None] * count
    return [parting.before, parting.after][-count:]
