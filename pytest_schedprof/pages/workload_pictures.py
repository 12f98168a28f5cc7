"""Places in the pictures of a recorded workload: what there was over time, and its shape."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate, pairwise
from math import log10

from pytest_schedprof.model.workload import Workload

WIDTH, HEIGHT = 560, 120
"""Size of a picture without its labels, as in `workload.html`."""

STEPS = 280
"""Times at which curves have a point."""

MOST_BARS = 140

MOST_TICKS = 6

WAITING, RUNNING, DONE = "waiting", "running", "done"
COLOURS = {DONE: 2, RUNNING: 1, WAITING: 0}


@dataclass(frozen=True, slots=True)
class Picture:
    """Areas, lines or bars over one axis."""

    title: str
    top: str
    """What the height stands for."""
    ticks: tuple[tuple[float, str], ...]
    areas: tuple[tuple[str, int, str], ...] = ()
    """Name, colour and path of each."""
    lines: tuple[tuple[str, str, str], ...] = ()
    """Class, name and points of each."""


def pictures(workload: Workload) -> list[Picture]:
    """Return the pictures that there is something to draw for."""
    time = TimeAxis(workload.seconds or 1.0)
    found = [_tasks(workload, time), _graphs(workload, time)]
    if workload.workers:
        found += [_threads(workload, time), _workers(workload, time)]
    return [*found, *_depths(workload)]


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Where times are."""

    span: float

    def x(self, at: float) -> float:
        """Return the place of a time."""
        return round(at / self.span * WIDTH, 1)

    def steps(self) -> list[float]:
        """Return the times of curves."""
        return [self.span * number / STEPS for number in range(STEPS + 1)]

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return the places and the names of round times."""
        return tuple((self.x(each), f"{each:g} s") for each in round_values(self.span))

    def line(self, values: Sequence[float], most: float) -> str:
        """Return the points of a curve."""
        points = zip(self.steps(), values, strict=True)
        return " ".join(f"{self.x(at):g},{height(value, most):g}" for at, value in points)


def height(value: float, most: float) -> float:
    """Return how far below the top a value is."""
    return round(HEIGHT - HEIGHT * value / (most or 1), 1)


def round_values(span: float) -> Iterator[float]:
    """Yield a few round numbers from 0 to the span."""
    step = 10 ** _exponent(span)
    wanted = next(each for each in (step / 5, step / 2, step, step * 2) if span / each < MOST_TICKS)
    yield from (round(number * wanted, 9) for number in range(int(span / wanted) + 1))


def _exponent(span: float) -> int:
    return int(log10(span) // 1)


def _tasks(workload: Workload, time: TimeAxis) -> Picture:
    """Return how many tasks waited, ran and were done."""
    came, begun, ended = _times(workload)
    most = len(came)
    steps = time.steps()
    done = [bisect_right(ended, at) for at in steps]
    running = [max(0, bisect_right(begun, at) - bisect_right(ended, at)) for at in steps]
    arrived = [bisect_right(came, at) for at in steps]
    tops = {
        DONE: done,
        RUNNING: [a + b for a, b in zip(done, running, strict=True)],
        WAITING: [max(a, b + c) for a, b, c in zip(arrived, done, running, strict=True)],
    }
    below, areas = [0] * len(steps), []
    for name, top in tops.items():
        areas.append((name, COLOURS[name], _area(time, below, top, most)))
        below = top
    return Picture("Tasks that wait, run and are done", f"{most:,}", time.ticks(), tuple(areas))


def _times(workload: Workload) -> tuple[list[float], list[float], list[float]]:
    """Return when tasks came, began to run and ended, each in order."""
    came = [graph.time for graph in workload.graphs for _ in graph.tasks]
    ends = workload.results.values()
    begun = sorted(each.time - each.seconds for each in ends)
    return sorted(came), begun, sorted(each.time for each in ends)


def _area(time: TimeAxis, below: Sequence[int], top: Sequence[int], most: int) -> str:
    upper = time.line(top, most)
    lower = " ".join(reversed(time.line(below, most).split(" ")))
    return f"M{upper} {lower}z"


def _threads(workload: Workload, time: TimeAxis) -> Picture:
    """Return how many tasks ran at the same time, and how many threads there were."""
    _, begun, ended = _times(workload)
    steps = time.steps()
    since = _Since(begun), _Since(ended)
    busy = [since[0].seconds(at) - since[1].seconds(at) for at in steps]
    running = [0.0, *((b - a) / (time.span / STEPS) for a, b in pairwise(busy))]
    threads = _over_time(workload, steps, lambda each: each.threads)
    most = max([*running, *threads])
    lines = (
        ("old", "threads", time.line(threads, most)),
        ("new", "running", time.line(running, most)),
    )
    title = "Running tasks and threads (dashed)"
    return Picture(title, f"{most:,.3g}", time.ticks(), lines=lines)


class _Since:
    """The time since some events, summed up over those that have happened."""

    def __init__(self, times: Sequence[float]) -> None:
        self._times, self._sums = times, [0.0, *accumulate(times)]

    def seconds(self, at: float) -> float:
        """Return the sum at a time."""
        count = bisect_right(self._times, at)
        return count * at - self._sums[count]


def _workers(workload: Workload, time: TimeAxis) -> Picture:
    """Return how many workers there were."""
    workers = _over_time(workload, time.steps(), lambda each: 1)
    line = ("new", "workers", time.line(workers, max(workers)))
    return Picture("Workers", f"{max(workers):,}", time.ticks(), lines=(line,))


def _over_time(workload: Workload, steps: Sequence[float], amount: Callable[..., int]) -> list[int]:
    """Return a sum over the workers that were there at each time."""
    events = sorted(workload.workers, key=lambda each: each.time)
    sums = [0, *accumulate(amount(each) * (1 if each.has_joined else -1) for each in events)]
    times = [each.time for each in events]
    return [max(0, sums[bisect_right(times, at)]) for at in steps]


def _graphs(workload: Workload, time: TimeAxis) -> Picture:
    """Return when graphs came; their heights are logarithms of their tasks."""
    tasks: Counter[float] = Counter()
    for graph in workload.graphs:
        tasks[time.x(graph.time)] += len(graph.tasks)
    most = max(tasks.values(), default=0)
    bars = {x: log10(1 + count) for x, count in tasks.items()}
    top = f"{most:,} tasks, logarithmic"
    area = ("graphs", COLOURS[WAITING], _bars(bars, 1.6, log10(1 + most)))
    return Picture("Graphs as they arrive", top, time.ticks(), (area,))


def _bars(bars: Mapping[float, float], width: float, most: float) -> str:
    return "".join(
        f"M{x:g} {HEIGHT}V{height(value, most):g}h{width:g}V{HEIGHT}z" for x, value in bars.items()
    )


def _depths(workload: Workload) -> Iterator[Picture]:
    """Yield how many tasks there are at each distance from tasks that need nothing."""
    try:
        depths = depths_of(workload)
    except CycleError:  # no scheduler runs such tasks
        return
    counts = Counter(depths.values())
    deepest, most = max(counts, default=0), max(counts.values(), default=0)
    together = deepest // MOST_BARS + 1
    width = WIDTH / (deepest // together + 1)
    bars: Counter[float] = Counter()
    for depth, count in counts.items():
        bars[round(depth // together * width, 1)] += count
    most = max(bars.values(), default=0)
    area = ("tasks", 6, _bars(bars, round(max(1.0, width - 1), 1), most))
    names = dict.fromkeys(int(each) for each in round_values(deepest or 1) if each == int(each))
    ticks = ((round(each / together * width + width / 2, 1), f"{each}") for each in names)
    yield Picture("Depth of tasks in their graphs", f"{most:,}", tuple(ticks), (area,))


def depths_of(workload: Workload) -> dict[int, int]:
    """Return for each task the longest way to one that needs nothing."""
    needs = {task.number: task.dependencies for task in workload.tasks()}
    found: dict[int, int] = {}
    for number in TopologicalSorter(needs).static_order():
        if number in needs:
            found[number] = 1 + max((found.get(each, -1) for each in needs[number]), default=-1)
    return found
