"""Pictures of decisions in virtual time: task streams, and what workers held."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_schedprof.model.comparison import Choice, Difference, Parting
from pytest_schedprof.model.decisions import Decided
from pytest_schedprof.model.metric import BYTES, Metric, readable

WIDTH, ROWS_HEIGHT, CURVE_HEIGHT = 560, 360, 120
"""Size of a stream without its labels, and height of a curve, as in `decisions.html`."""

GAP = 0.6
"""Tasks of one kind on one thread are drawn as one if the gap between them is narrower."""


@dataclass(frozen=True, slots=True)
class Area:
    """All tasks of one kind, as one path."""

    name: str
    colour: int
    path: str


@dataclass(frozen=True, slots=True)
class StreamPicture:
    """The task stream of one side."""

    title: str
    height: float
    rows: tuple[tuple[float, str], ...]
    """Middle and name of each worker's row."""
    areas: tuple[Area, ...]
    fetched: str
    """Path of the transfers."""
    mark: float | None
    """Where the first difference is."""
    marked: tuple[float, float, float, float] | None
    """Rectangle of the task that it is about."""


@dataclass(frozen=True, slots=True)
class Curve:
    """What workers held over time, on each side."""

    title: str
    most: str
    lines: tuple[tuple[str, str], ...]
    """Class and points of each side's line."""
    mark: float | None


@dataclass(frozen=True, slots=True)
class Scale:
    """Where times, workers and kinds of tasks are."""

    span: int
    """Microseconds that the width stands for."""
    shown: list[str]
    colours: dict[str, int]

    @property
    def row(self) -> float:
        """Height of a worker's row."""
        return max(8.0, min(24.0, ROWS_HEIGHT / max(1, len(self.shown))))

    def x(self, at: float) -> float:
        """Return the place of a time in microseconds."""
        return round(at / self.span * WIDTH, 1)

    def stream(self, title: str, of: Decided, choice: Choice | None) -> StreamPicture:
        """Return the task stream of one side."""
        tops = {name: number * self.row for number, name in enumerate(self.shown)}
        areas: dict[str, list[str]] = {}
        for kind, left, width, top, height in self._bars(of, tops):
            areas.setdefault(kind, []).append(f"M{left:g} {top:g}h{width:g}v{height:g}h-{width:g}z")
        return StreamPicture(
            title,
            self.row * len(self.shown),
            tuple((top + self.row / 2, name.removeprefix("worker-")) for name, top in tops.items()),
            tuple(Area(kind, self.colours[kind], "".join(d)) for kind, d in areas.items()),
            "".join(self._fetched(of, tops)),
            None if choice is None else self.x(choice.at_s * 1e6),
            None if choice is None else self._marked(of, tops, choice),
        )

    def _bars(
        self, of: Decided, tops: dict[str, float]
    ) -> Iterator[tuple[str, float, float, float, float]]:
        """Yield kind, left, width, top and height of what is drawn for tasks."""
        for name, tasks in _by_worker(of, tops).items():
            threads = _threads(tasks)
            height = round((self.row - 1) / max(1, len(threads)), 1)
            for number, thread in enumerate(threads):
                top = round(tops[name] + number * height, 1)
                for kind, left, right in self._merged(thread):
                    yield kind, left, round(max(0.4, right - left), 1), top, height

    def _merged(self, thread: list[tuple[int, int, str]]) -> Iterator[tuple[str, float, float]]:
        """Yield kind, left and right of the tasks of one thread, as few as one can see."""
        open_one: tuple[str, float, float] | None = None
        for start, stop, key in thread:
            kind, left, right = kind_of(key), self.x(start), self.x(stop)
            if open_one and open_one[0] == kind and left - open_one[2] < GAP:
                open_one = kind, open_one[1], max(right, open_one[2])
                continue
            if open_one:
                yield open_one
            open_one = kind, left, right
        if open_one:
            yield open_one

    def _fetched(self, of: Decided, tops: dict[str, float]) -> Iterator[str]:
        rows = zip(of.transfers.worker, of.transfers.start, of.transfers.took, strict=True)
        last: dict[int, float] = {}
        for worker, start, took in sorted(rows):
            left, right = self.x(start), self.x(start + took)
            if of.workers[worker] not in tops or right - last.get(worker, -1.0) < 0.3:
                continue
            last[worker] = right
            top = tops[of.workers[worker]] + self.row - 2
            yield f"M{left:g} {top:g}h{max(0.4, right - left):.1f}v1.6H{left:g}z"

    def _marked(
        self, of: Decided, tops: dict[str, float], choice: Choice
    ) -> tuple[float, float, float, float] | None:
        """Return the rectangle of the task that a decision is about, where it ran."""
        rows = zip(of.tasks.key, of.tasks.worker, of.tasks.start, of.tasks.took, strict=True)
        for key, worker, start, took in rows:
            name = of.workers[worker]
            if of.keys[key] == choice.key and start >= choice.at_s * 1e6 and name in tops:
                left = self.x(start)
                return left - 1, tops[name] - 1, max(3.0, self.x(start + took) - left + 2), self.row
        return None

    def curve(
        self,
        title: str,
        values: Sequence[Sequence[int]],
        decided: Sequence[Decided],
        choices: Sequence[Choice | None],
    ) -> Curve:
        """Return what was held on each side."""
        most = max((value for each in values for value in each), default=0)
        classes = ("old", "new")[-len(values) :]
        lines = tuple(
            (name, self._points(each.held.at, held, most))
            for name, held, each in zip(classes, values, decided, strict=True)
        )
        marks = [self.x(each.at_s * 1e6) for each in choices if each is not None]
        return Curve(title, _bytes(most), lines, min(marks, default=None))

    def _points(self, at: Sequence[int], held: Sequence[int], most: int) -> str:
        edge = CURVE_HEIGHT - 4
        heights = [round(edge + 2 - edge * value / (most or 1), 1) for value in held]
        return " ".join(
            f"{min(self.x(when), float(WIDTH)):g},{height:g}"
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
    return {name: sorted(each) for name, each in found.items()}


def _threads(tasks: list[tuple[int, int, str]]) -> list[list[tuple[int, int, str]]]:
    """Share tasks out to as few threads as they need."""
    threads: list[list[tuple[int, int, str]]] = []
    for task in tasks:
        free = next((each for each in threads if each[-1][1] <= task[0]), None)
        if free is None:
            threads.append([task])
        else:
            free.append(task)
    return threads


def _bytes(amount: int) -> str:
    return readable(amount, Metric(BYTES, "")) if amount else "0 B"


MOST_WORKERS = 40
"""Rows of a stream. Workers that the first difference is about are among them."""

COLOURS = 8
MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class DecisionsPicture:
    """One round of a test, of one side or of two."""

    streams: tuple[StreamPicture, ...]
    curves: tuple[Curve, ...]
    ticks: tuple[tuple[float, str], ...]
    legend: tuple[tuple[str, int, int], ...]
    """Kinds of tasks with their colours and numbers."""
    hidden: int
    """Workers that have no row."""
    note: str


def picture(sides: Sequence[tuple[str, Decided]], parting: Parting | None) -> DecisionsPicture:
    """Return the picture of one or two sides, the earlier one first, on one scale.

    Args:
        sides: the name and the decisions of each.
        parting: whose first difference is marked; None if there is nothing to mark.
    """
    decided = [each for _, each in sides]
    span = max((_end(each) for each in decided), default=0) or 1
    names = list(dict.fromkeys(_sorted(name for each in decided for name in each.workers)))
    shown = _shown(names, parting)
    kinds = _kinds(decided)
    choices = _choices(parting, len(sides))
    scale = Scale(span, shown, {kind: number % COLOURS for number, kind in enumerate(kinds)})
    round = f"round {parting.round} of {parting.rounds}" if parting and parting.rounds > 1 else ""
    return DecisionsPicture(
        tuple(
            scale.stream(name, each, choice)
            for (name, each), choice in zip(sides, choices, strict=True)
        ),
        (
            scale.curve(
                "all workers together", [each.held.all for each in decided], decided, choices
            ),
            scale.curve(
                "the worker that held most", [each.held.worst for each in decided], decided, choices
            ),
        ),
        tuple(_ticks(span)),
        tuple((kind, scale.colours[kind], count) for kind, count in kinds.items()),
        len(names) - len(shown),
        round,
    )


def _kinds(decided: Iterable[Decided]) -> dict[str, int]:
    """Return the kinds of tasks and how many there are of each on the later side."""
    counts: dict[str, int] = {}
    for each in decided:
        counts = dict.fromkeys(counts, 0)
        for key in each.tasks.key:
            kind = kind_of(each.keys[key])
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
    wanted = [
        worker.name
        for choice in (parting.before, parting.after, parting.later) if choice is not None
        for worker in (choice.worker, choice.best_other) if worker is not None
    ] if parting else []  # fmt: skip
    first = dict.fromkeys([*(each for each in wanted if each in names), *names])
    return _sorted(list(first)[:MOST_WORKERS])


def _choices(parting: Parting | None, count: int) -> list[Choice | None]:
    """Return the decision to mark on each side."""
    if parting is None or parting.what is Difference.GRAPH:
        return [None] * count
    return [parting.before, parting.after][-count:]


def _ticks(span: int) -> Iterator[tuple[float, str]]:
    """Yield the place and the name of round times."""
    step = 10 ** (len(str(span)) - 1)
    steps = (step // 5 or 1, step // 2 or 1, step, step * 2)
    step = next(each for each in steps if span / each <= MOST_TICKS)
    for at in range(0, span + 1, step):
        yield round(at / span * WIDTH, 1), f"{at / 1e6:g} s"
