"""What the page of a recorded workload shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from statistics import median, quantiles

from pytest_schedprof.model.metric import BYTES, TIME, Metric, readable
from pytest_schedprof.model.workload import Result, Workload
from pytest_schedprof.pages.workload_pictures import COLOURS, Picture, pictures

MOST_PREFIXES = 100

SECONDS, SIZE = Metric(TIME, ""), Metric(BYTES, "")
LEAST_SECONDS, LEAST_BYTES = 1e-6, 1.0
"""What is drawn as the least amount: scales are logarithmic."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and its text."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some amounts, and where four fifths of them are, on a logarithmic scale."""

    text: str
    bounds: str
    value: float
    low: float
    high: float
    before: None = None
    limit: None = None


@dataclass(frozen=True, slots=True)
class PrefixRow:
    """The tasks of one prefix."""

    prefix: str
    tasks: int
    part: float
    """Fraction of the time of all tasks."""
    seconds: Spread | None
    nbytes: Spread | None
    erred: int


@dataclass(frozen=True, slots=True)
class WorkloadPage:
    """A recorded workload."""

    name: str
    facts: tuple[Fact, ...]
    pictures: tuple[Picture, ...]
    colours: tuple[tuple[str, int], ...]
    prefixes: tuple[PrefixRow, ...]
    left_out: int


def page_of_workload(workload: Workload, name: str) -> WorkloadPage:
    """Return the page.

    Args:
        workload: what it shows.
        name: of its file.
    """
    rows = _rows(workload)
    return WorkloadPage(
        name,
        tuple(Fact(label, text) for label, text in _facts(workload) if text),
        tuple(pictures(workload)),
        tuple(COLOURS.items()),
        tuple(rows[:MOST_PREFIXES]),
        len(rows[MOST_PREFIXES:]),
    )


def _facts(workload: Workload) -> Iterator[tuple[str, str]]:
    tasks, results = [*workload.tasks()], workload.results.values()
    joined = [each for each in workload.workers if each.has_joined]
    yield "recorded", workload.begun
    yield "distributed", workload.distributed
    yield "duration", f"{workload.seconds:.1f} s"
    yield "graphs", f"{len(workload.graphs):,}"
    yield "tasks", f"{len(tasks):,}"
    yield "dependencies", f"{sum(len(each.dependencies) for each in tasks):,}"
    yield "prefixes", f"{len({each.group.prefix for each in tasks}):,}"
    yield "clients", f"{len({each.client for each in workload.graphs}):,}"
    yield "workers joined", f"{len(joined):,} with {sum(each.threads for each in joined):,} threads"
    yield (
        "time of tasks",
        readable(sum(each.seconds for each in results), SECONDS),
    )
    yield "results", readable(sum(each.nbytes for each in results), SIZE)
    yield "end", "cut off" if workload.is_cut else ""


def _rows(workload: Workload) -> list[PrefixRow]:
    """Return the prefixes, those first whose tasks took most."""
    counts: dict[str, int] = defaultdict(int)
    ended: dict[str, list[Result]] = defaultdict(list)
    for task in workload.tasks():
        counts[task.group.prefix] += 1
        if task.number in workload.results:
            ended[task.group.prefix].append(workload.results[task.number])
    results = workload.results.values()
    seconds = Scale.of(SECONDS, [each.seconds for each in results], LEAST_SECONDS)
    sizes = Scale.of(SIZE, [each.nbytes for each in results], LEAST_BYTES)
    whole = sum(each.seconds for found in ended.values() for each in found) or 1.0
    rows = [
        PrefixRow(
            prefix,
            count,
            sum(each.seconds for each in ended[prefix]) / whole,
            seconds.spread([each.seconds for each in ended[prefix]]),
            sizes.spread([each.nbytes for each in ended[prefix]]),
            sum(each.is_error for each in ended[prefix]),
        )
        for prefix, count in counts.items()
    ]
    return sorted(rows, key=lambda row: (-row.part, -row.tasks, row.prefix))


@dataclass(frozen=True, slots=True)
class Scale:
    """A logarithmic scale that has room for all amounts of a kind."""

    metric: Metric
    low: float
    high: float

    @classmethod
    def of(cls, metric: Metric, amounts: Sequence[float], least: float) -> Scale:
        """Return the scale of all durations or sizes of a workload."""
        found = [max(each, least) for each in amounts] or [least]
        return cls(metric, min(found), max(found))

    def place(self, amount: float) -> float:
        """Return where an amount is, from 0 to 1."""
        if self.high == self.low:
            return 0.5
        return log(max(amount, self.low) / self.low) / log(self.high / self.low)

    def spread(self, amounts: Sequence[float]) -> Spread | None:
        """Return how amounts are spread; None if there are none."""
        if not amounts:
            return None
        low, high = _tenths(amounts)
        words = (readable(each, self.metric) if each else "0" for each in (low, high))
        middle = median(amounts)
        return Spread(
            readable(middle, self.metric) if middle else "0",
            " to ".join(words),
            value=round(self.place(middle), 4),
            low=round(self.place(low), 4),
            high=round(self.place(high), 4),
        )


def _tenths(amounts: Iterable[float]) -> tuple[float, float]:
    """Return what a tenth of all amounts is below, and what a tenth is above."""
    found = sorted(amounts)
    if len(found) == 1:
        return found[0], found[0]
    tenths = quantiles(found, n=10, method="inclusive")
    return tenths[0], tenths[-1]
