"""Measures what a task costs schedulers on clusters of more and more workers, in turns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pytest_schedprof.errors import ClusterError
from pytest_schedprof.measuring.by_load import rates_by_load
from pytest_schedprof.measuring.sweeping import Sweeping
from pytest_schedprof.measuring.under_load import Session, sessions
from pytest_schedprof.measuring.wanted import Tell, Wanted, Work
from pytest_schedprof.model.capacity import Measured, Point
from pytest_schedprof.workloads.graphs import prefixes_of

BUSY_S = 1.5
"""CPU time of the rounds of one cluster together."""

LONG_S = 10.0
"""CPU time after which no round follows, however few there were."""

FEW_ROUNDS, LEAST_ROUNDS, MOST_ROUNDS = 2, 3, 10

NO_STALL = (0.0, "")

FACTORS = (1, 2, 4)
"""How many times more tasks the rounds of the ladder of tasks have."""

BASE_TASKS = 500
"""Least tasks of a round of the ladders of tasks and of prefixes."""

PREFIXES = (1, 20, 400)


def measure(wanted: Wanted, tell: Tell) -> tuple[Measured, ...]:
    """Measure all sides, in turns at each size.

    Raises:
        SchedprofError: if a cluster cannot be started or is lost, or a workload cannot run.
    """
    ladders: list[list[Point]] = [[] for _ in wanted.sides]
    sweeping = [Sweeping(wanted) for _ in wanted.sides]
    for repeat in range(wanted.repeats):
        # Up and down, so that what slowly changes on the machine is not taken for growth.
        for workers in wanted.workers if repeat % 2 == 0 else reversed(wanted.workers):
            tell(f"schedprof: {workers} workers, cluster {repeat + 1} of {wanted.repeats}")
            with sessions(wanted, workers) as opened:
                for ladder, point in zip(ladders, _points(wanted, workers, opened), strict=True):
                    ladder.append(point)
                for found, each in zip(sweeping, opened, strict=True):
                    found.add(each, _work(wanted, workers))
                about = [each.description for each in opened]
    others = _others(wanted, tell) if wanted.is_sized else [([], []) for _ in wanted.sides]
    rates = rates_by_load(wanted, [_cheapest(each, wanted.workers[0]) for each in ladders], tell)
    return tuple(
        Measured(
            name=side.name,
            distributed=description["versions"]["distributed"],
            python=description["python"],
            workers=tuple(sorted(points, key=lambda each: each.workers)),
            tasks=tuple(tasks),
            prefixes=tuple(prefixes),
            by_load=by_load,
            sweeps=swept.found(),
        )
        for side, points, (tasks, prefixes), description, by_load, swept in zip(
            wanted.sides, ladders, others, about, rates, sweeping, strict=True
        )
    )


def _cheapest(points: Sequence[Point], workers: int) -> float:
    return min(each.cost for each in points if each.workers == workers)


def _work(wanted: Wanted, workers: int) -> Work:
    return wanted.work(wanted.tasks * workers * wanted.threads)


def _points(wanted: Wanted, workers: int, opened: Sequence[Session]) -> list[Point]:
    work = _work(wanted, workers)
    _rounds(opened, work)
    ended = int(min(each.rounds[-1]["tasks"] for each in opened))
    if ended < wanted.least_tasks:
        raise ClusterError(
            f"schedprof: with {workers} workers only {ended} tasks ended of at least "
            f"{wanted.least_tasks}: clients released the others before; give more workers"
        )
    stalls = [each.stall(work) if wanted.with_stalls else NO_STALL for each in opened]
    return [each.point(stall) for each, stall in zip(opened, stalls, strict=True)]


def _rounds(opened: Sequence[Session], work: Work, least: int = LEAST_ROUNDS) -> None:
    """Run rounds in turns, until enough CPU time is measured."""
    for each in opened:
        each.rounds = []
    busy = 0.0
    for number in range(MOST_ROUNDS):
        enough = (BUSY_S if least > FEW_ROUNDS else 0.0) if number >= least else LONG_S
        if busy >= enough:
            break
        for each in opened if number % 2 else reversed(opened):
            each.rounds.append(each.round(work))
        last = opened[0].rounds[-1]
        busy += last["cpu"] * last["tasks"]


def _others(wanted: Wanted, tell: Tell) -> list[tuple[list[Point], list[Point]]]:
    """Return the ladders of tasks and of prefixes of each side, at the smallest size."""
    tell("schedprof: more tasks, more prefixes")
    found: list[tuple[list[Point], list[Point]]] = [([], []) for _ in wanted.sides]
    workers = wanted.workers[0]
    base = max(BASE_TASKS, wanted.tasks * workers * wanted.threads)
    with sessions(wanted, workers) as opened:
        for factor in FACTORS:
            _rounds(opened, wanted.work(base * factor), FEW_ROUNDS)
            for (tasks, _), each in zip(found, opened, strict=True):
                tasks.append(each.point(NO_STALL))
        for number in PREFIXES:
            _rounds(opened, partial(prefixes_of, size=BASE_TASKS, prefixes=number), FEW_ROUNDS)
            for (_, prefixes), each in zip(found, opened, strict=True):
                prefixes.append(each.point(NO_STALL, number))
    return found
