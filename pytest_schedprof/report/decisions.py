"""Pictures of decisions in virtual time: task streams, and what workers held."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from pytest_schedprof.model.comparison import Choice, Difference, Parting
from pytest_schedprof.model.decisions import Decided
from pytest_schedprof.model.metric import BYTES, Metric, readable

WIDTH, ROWS_HEIGHT, CURVE_HEIGHT = 560, 360, 120
"""Size of a stream without its labels, and height of a curve, as in `decisions.html`."""

GAP = 0.6
"""Tasks of one kind on one thread are drawn as one if the gap between them is narrower."""


MOST_WORKERS = 40
"""Rows of a stream. Workers that the first difference is about are among them."""

COLOURS = 8
MOST_TICKS = 6

Area = tuple[str, int, str]
"""All tasks of one kind: its name, its colour and a path."""

Side = tuple[str, Decided, Choice | None]
"""The name of a side, what it decided, and the decision to mark."""


class Picture:
    """One round of a test, of one side or of two, the earlier one first, on one scale."""

    def __init__(self, sides: Sequence[tuple[str, Decided]], parting: Parting | None) -> None:
        """Take the name and the decisions of each side.

        Args:
            sides: the earlier one first.
            parting: whose first difference is marked; None if there is nothing to mark.
        """
        decided = [of for _, of in sides]
        choices = _choices(parting, len(sides))
        names = dict.fromkeys(_sorted(name for of in decided for name in of.workers))
        self.sides: list[Side] = [
            (*side, choice) for side, choice in zip(sides, choices, strict=True)
        ]
        self.kinds = _kinds(decided)
        self.shown = _shown(list(names), parting)
        self.hidden = len(names) - len(self.shown)
        """Workers that have no row."""
        several = parting is not None and parting.rounds > 1
        self.note = f"round {parting.round} of {parting.rounds}" if parting and several else ""
        self._span = max((_end(of) for of in decided), default=0) or 1
        """Microseconds that the width stands for."""
        self._row = max(8.0, min(24.0, ROWS_HEIGHT / max(1, len(self.shown))))
        """Height of a worker's row."""
        self._tops = {name: number * self._row for number, name in enumerate(self.shown)}

    @property
    def height(self) -> float:
        """Height of a stream."""
        return self._row * len(self.shown)

    @property
    def rows(self) -> list[tuple[float, str]]:
        """Middle and name of each worker's row."""
        tops = self._tops.items()
        return [(top + self._row / 2, name.removeprefix("worker-")) for name, top in tops]

    @property
    def colours(self) -> dict[str, int]:
        """The colour of each kind of tasks."""
        return {kind: number % COLOURS for number, kind in enumerate(self.kinds)}

    @property
    def ticks(self) -> Iterator[tuple[float, str]]:
        """The place and the name of round times."""
        step = 10 ** (len(str(self._span)) - 1)
        steps = (step // 5 or 1, step // 2 or 1, step, step * 2)
        step = next(size for size in steps if self._span / size <= MOST_TICKS)
        for at in range(0, self._span + 1, step):
            yield round(at / self._span * WIDTH, 1), f"{at / 1e6:g} s"

    def mark(self, choice: Choice) -> float:
        """Return the place of a decision."""
        return self._x(choice.at_s * 1e6)

    def _x(self, at: float) -> float:
        """Return the place of a time in microseconds."""
        return round(at / self._span * WIDTH, 1)

    def areas(self, of: Decided) -> list[Area]:
        """Return the tasks of a side by kind."""
        areas: dict[str, list[str]] = {}
        for kind, left, width, top, height in self._bars(of):
            areas.setdefault(kind, []).append(f"M{left:g} {top:g}h{width:g}v{height:g}h-{width:g}z")
        return [(kind, self.colours[kind], "".join(paths)) for kind, paths in areas.items()]

    def _bars(self, of: Decided) -> Iterator[tuple[str, float, float, float, float]]:
        """Yield kind, left, width, top and height of what is drawn for tasks."""
        for name, tasks in _by_worker(of, self._tops).items():
            threads = _threads(tasks)
            height = round((self._row - 1) / max(1, len(threads)), 1)
            for number, thread in enumerate(threads):
                top = round(self._tops[name] + number * height, 1)
                for kind, left, right in self._merged(thread):
                    yield kind, left, round(max(0.4, right - left), 1), top, height

    def _merged(self, thread: list[tuple[int, int, str]]) -> Iterator[tuple[str, float, float]]:
        """Yield kind, left and right of the tasks of one thread, as few as one can see."""
        open_one: tuple[str, float, float] | None = None
        for start, stop, key in thread:
            kind, left, right = kind_of(key), self._x(start), self._x(stop)
            if open_one and open_one[0] == kind and left - open_one[2] < GAP:
                open_one = kind, open_one[1], max(right, open_one[2])
                continue
            if open_one:
                yield open_one
            open_one = kind, left, right
        if open_one:
            yield open_one

    def fetched(self, of: Decided) -> str:
        """Return the path of the transfers of a side."""
        return "".join(self._transfers(of))

    def _transfers(self, of: Decided) -> Iterator[str]:
        rows = zip(of.transfers.worker, of.transfers.start, of.transfers.took, strict=True)
        last: dict[int, float] = {}
        for worker, start, took in sorted(rows):
            left, right = self._x(start), self._x(start + took)
            if of.workers[worker] not in self._tops or right - last.get(worker, -1.0) < 0.3:
                continue
            last[worker] = right
            top = self._tops[of.workers[worker]] + self._row - 2
            yield f"M{left:g} {top:g}h{max(0.4, right - left):.1f}v1.6H{left:g}z"

    def marked(self, of: Decided, choice: Choice) -> tuple[float, float, float, float] | None:
        """Return the rectangle of the task that a decision is about, where it ran."""
        rows = zip(of.tasks.key, of.tasks.worker, of.tasks.start, of.tasks.took, strict=True)
        for key, worker, start, took in rows:
            name = of.workers[worker]
            if of.keys[key] == choice.key and start >= choice.at_s * 1e6 and name in self._tops:
                left = self._x(start)
                top = self._tops[name] - 1
                return left - 1, top, max(3.0, self._x(start + took) - left + 2), self._row
        return None

    def curves(self) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
        """Yield a title, the most that was held, and class and points of each side's line."""
        helds = [decided.held for _, decided, _ in self.sides]
        yield self._curve("all workers together", [(held.at, held.all) for held in helds])
        yield self._curve("the worker that held most", [(held.at, held.worst) for held in helds])

    def _curve(
        self, title: str, series: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> tuple[str, str, list[tuple[str, str]]]:
        most = max((amount for _, held in series for amount in held), default=0)
        classes = ("old", "new")[-len(series) :]
        lines = [
            (name, self._points(at, held, most))
            for name, (at, held) in zip(classes, series, strict=True)
        ]
        return title, readable(most, Metric(BYTES, "")) if most else "0 B", lines

    @property
    def first_mark(self) -> float | None:
        """Place of the first difference; None if there is nothing to mark."""
        marks = [self.mark(choice) for _, _, choice in self.sides if choice is not None]
        return min(marks, default=None)

    def _points(self, at: Sequence[int], held: Sequence[int], most: int) -> str:
        edge = CURVE_HEIGHT - 4
        heights = [round(edge + 2 - edge * value / (most or 1), 1) for value in held]
        return " ".join(
            f"{min(self._x(when), float(WIDTH)):g},{height:g}"
            for when, height in zip(at, heights, strict=True)
        )


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


def _by_worker(of: Decided, tops: dict[str, float]) -> dict[str, list[tuple[int, int, str]]]:
    """Return start, stop and key of each worker's tasks, in order."""
    found: dict[str, list[tuple[int, int, str]]] = {}
    tasks = of.tasks
    for key, worker, start, took in zip(
        tasks.key, tasks.worker, tasks.start, tasks.took, strict=True
    ):
        if (name := of.workers[worker]) in tops:
            found.setdefault(name, []).append((start, start + took, of.keys[key]))
    return {name: sorted(tasks_of_worker) for name, tasks_of_worker in found.items()}


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


def _end(of: Decided) -> int:
    ends = (start + took for start, took in zip(of.tasks.start, of.tasks.took, strict=True))
    return max(ends, default=0)


def _sorted(names: Iterable[str]) -> list[str]:
    """Sort workers by number."""
    return sorted(names, key=lambda name: (len(name), name))


def _shown(names: list[str], parting: Parting | None) -> list[str]:
    """Return the workers that get a row."""
    chosen = [
        worker.name
        for choice in (parting.before, parting.after, parting.later) if choice is not None
        for worker in (choice.worker, choice.best_other) if worker is not None
    ] if parting else []  # fmt: skip
    first = dict.fromkeys([*(name for name in chosen if name in names), *names])
    return _sorted(list(first)[:MOST_WORKERS])


def _choices(parting: Parting | None, count: int) -> list[Choice | None]:
    """Return the decision to mark on each side."""
    if parting is None or parting.what is Difference.GRAPH:
        return [None] * count
    return [parting.before, parting.after][-count:]
