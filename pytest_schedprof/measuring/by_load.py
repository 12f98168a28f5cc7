"""Finds the highest rate of tasks that a scheduler carries, by raising the load until it does not.

The load is open: graphs arrive at fixed times, whether the scheduler keeps up or not. It carries
them if the longest stall and the lag of its event loop keep their bounds, and if the last graph
ends in time: otherwise graphs wait for it longer and longer, however short its stalls are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite

from pytest_schedprof.measuring.open_loop import OpenLoop
from pytest_schedprof.measuring.under_load import Session, patience_of, session
from pytest_schedprof.measuring.wanted import Tell, Wanted, Work
from pytest_schedprof.model.capacity import Bounds, ByLoad, Load
from pytest_schedprof.searching.rates import Tried, bracket, broken_by, next_rate

SECONDS = 4.0
"""How long graphs arrive, at each rate."""

LEAST_GRAPHS = 8

MOST_TRIES = 12

BEGIN_AT = 0.5
"""The rate to begin with, as a part of what one core carries by the cost of a task."""


def rates_by_load(wanted: Wanted, costs: Sequence[float], tell: Tell) -> list[ByLoad | None]:
    """Return the highest rate of each side, on a cluster of the smallest size.

    Args:
        wanted: what to measure.
        costs: seconds of a task there, of each side.
        tell: called with a line about each load.
    """
    if wanted.bounds is None:
        return [None for _ in wanted.sides]
    workers = wanted.workers[0]
    tasks = wanted.tasks * workers * wanted.threads
    found: list[ByLoad | None] = []
    for side, cost in zip(wanted.sides, costs, strict=True):
        with session(wanted, side, workers, patience_of(workers)) as opened:
            arriving = Arriving(opened, wanted.work(tasks), tasks, wanted.bounds)
            found.append(highest_rate(arriving, 1 / cost, tell))
    return found


def highest_rate(arriving: Arriving, expected: float, tell: Tell) -> ByLoad:
    """Raise the load until the scheduler does not carry it.

    Args:
        arriving: what arrives where.
        expected: tasks a second that it carries by the cost of a task.
        tell: called with a line about each load.
    """
    tried: list[Tried] = []
    loads: list[Load] = []
    while (rate := next_rate(BEGIN_AT * expected, tried, MOST_TRIES)) is not None:
        load = arriving.at(rate)
        tell(f"schedprof: {rate:,.0f} tasks a second: {load.broken or 'carried'}")
        loads.append(load)
        tried.append(Tried(rate, not load.broken))
    found = bracket(tried)
    failed = found.failed if isfinite(found.failed) else None  # JSON has no infinity
    return ByLoad(arriving.session.workers, found.carried, failed, tuple(loads))


@dataclass(frozen=True, slots=True)
class Arriving:
    """Graphs that arrive at a cluster."""

    session: Session
    work: Work
    tasks: int
    """Tasks of each graph."""
    bounds: Bounds

    def at(self, rate: float) -> Load:
        """Send graphs with so many tasks a second; return what happened."""
        every_s = self.tasks / rate
        times = max(LEAST_GRAPHS, round(SECONDS / every_s))
        loop = OpenLoop(partial(self.work, self.session.client), every_s, times)
        seen = self.session.watch(loop.drive)
        asked_s = times * every_s
        late = seen.result if loop.are_all_sent else max(asked_s, seen.result)
        return Load(
            asked=rate,
            ended=seen.tasks / seen.seconds,
            late=late,
            stall=seen.stall,
            lag=seen.lag,
            busy=seen.cpu / seen.seconds,
            broken=broken_by(seen.stall, seen.lag, late / asked_s, self.bounds),
        )
