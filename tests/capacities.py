"""Makes what `schedprof capacity` measures, of planted laws."""

from __future__ import annotations

from pytest_schedprof.analysis.carrying import carried, changes
from pytest_schedprof.model.capacity import Bounds, Capacity, Measured, Point

SIZES = (100, 300, 1000, 2000)


def point(workers: int, cost: float, threads: int = 1, **figures: float) -> Point:
    return Point(
        workers=workers,
        threads=workers * threads,
        tasks=int(figures.get("tasks", 3 * workers)),
        prefixes=int(figures.get("prefixes", 0)),
        cpu=(cost * 1.3, cost * 0.9, cost),
        rate=1 / cost,
        stall=figures.get("stall", 2e-4 * workers),
        stalled_by="distributed.scheduler:Scheduler.update_graph",
        lag=figures.get("lag", 5e-4 * workers),
        idle=0.05,
        memory=9e7 + 5e4 * workers,
    )


def measured(factor: float = 1.0, threads: int = 1, name: str = "") -> Measured:
    def at(size: int) -> Point:
        return point(size, factor * (3.8e-4 + 5e-8 * size), threads)

    return Measured(
        name,
        "2026.8.0",
        "3.11.7",
        workers=tuple(at(size) for size in SIZES for _ in range(2)),
        tasks=tuple(point(100, 4e-4, tasks=tasks) for tasks in (1000, 2000, 8000)),
        prefixes=tuple(point(100, 4e-4 * n**0.1, prefixes=n) for n in (1, 10, 1000)),
    )


def capacity(*sides: Measured) -> Capacity:
    bounds, durations = Bounds(3.0, 1.0), (0.1, 1.0, 60.0)
    found = tuple(carried(each, (10_000,), durations, bounds) for each in sides)
    return Capacity(
        machine="a machine x 2",
        measured_at="2026-01-01T00:00:00+00:00",
        cluster="simulated",
        workload="many_tiny_tasks",
        tasks_a_thread=3,
        threads_a_worker=1,
        bounds=bounds,
        sides=found,
        changes=changes(*sides) if len(sides) > 1 else (),
        seconds=60.0,
    )
