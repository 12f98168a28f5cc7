"""Measures what a task costs a scheduler, on clusters of several sizes.

The scheduler is real and has a process of its own, so its CPU time is not mixed with that of
workers. These are hollow and have their results at once, so that it always has work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import psutil
from distributed import Client

from pytest_schedprof.agent import load
from pytest_schedprof.backends.registry import find_backends
from pytest_schedprof.clusters.contract import ClusterSpec
from pytest_schedprof.clusters.own import OwnCluster
from pytest_schedprof.clusters.simulated import SimulatedCluster
from pytest_schedprof.clusters.under_test import SchedulerUnderTest, open_scheduler
from pytest_schedprof.errors import ClusterError, SchedprofError, as_own
from pytest_schedprof.model.capacity import Measured, Point
from pytest_schedprof.remote.control import Control
from pytest_schedprof.workloads import prefixes_of

PATIENCE_S = 600.0
START_S = 60.0
WORKERS_A_SECOND = 20
"""How many workers join at least, of the time that a cluster may take to start."""

BUSY_S = 1.5
"""CPU time of the rounds of one cluster together."""

LEAST_ROUNDS, MOST_ROUNDS = 3, 10

WARM_TASKS = 300
"""Tasks that a new cluster runs first, which are not measured."""

IDLE_S = 2.0

FACTORS = (1, 2, 4, 8)
"""How many times more tasks the rounds of the ladder of tasks have."""

BASE_TASKS = 1000

PREFIXES = (1, 10, 100, 1000)

Work: TypeAlias = Callable[[Client], None]
Tell: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SideSpec:
    """A scheduler that is measured."""

    name: str = ""
    interpreter: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to measure."""

    work: Callable[[int], Work]
    """Makes the work of a number of tasks."""
    workers: tuple[int, ...]
    threads: int
    tasks: int
    """Tasks of a round for each thread."""
    repeats: int
    """Clusters of each size."""
    sides: tuple[SideSpec, ...] = (SideSpec(),)
    options: Mapping[str, str] = field(default_factory=dict)
    is_sized: bool = True
    """Whether the number of tasks can be chosen: that of a recorded workload cannot."""


class _Session:
    """One cluster under load."""

    def __init__(self, cluster: OwnCluster, control: Control, at: SchedulerUnderTest) -> None:
        self.cluster, self.control, self.client = cluster, control, at.client
        self.description = at.description
        self.threads = int(at.description["threads"])
        self.rounds: list[dict[str, float]] = []

    def round(self, work: Work) -> dict[str, float]:
        """Run the work once; return what it cost."""
        before = self.control.call(load.begin)
        begun = time.perf_counter()
        self._run(work)
        seconds = time.perf_counter() - begun
        after = self.control.call(load.end, PATIENCE_S, timeout_s=PATIENCE_S)
        tasks = after["tasks"] - before["tasks"]
        if not tasks:
            raise ClusterError("schedprof: the workload has no task that the scheduler finished")
        cpu = (after["cpu"] - before["cpu"]) / tasks
        return {"cpu": cpu, "tasks": tasks, "rate": tasks / seconds, "lag": after["lag"]}

    def _run(self, work: Work) -> None:
        try:
            work(self.client)
        except SchedprofError:
            raise
        except Exception as error:
            if death := self.cluster.death(1.0):
                raise ClusterError(f"schedprof: {death}") from error
            raise as_own(error) from error

    def stall(self, work: Work) -> tuple[float, str]:
        """Run the work once more; return the longest callback of the loop, and its function."""
        backend = find_backends().make("stalls", rate_hz=1, options={})
        recording = backend.start(self.control, timeout_s=PATIENCE_S)
        self._run(work)
        self.control.call(load.wait_until_empty, PATIENCE_S, timeout_s=PATIENCE_S)
        content = recording.stop(timeout_s=PATIENCE_S).content
        profile: Any = backend.read(content, lambda places: [name for _, name, _ in places])
        longest = max(
            profile.functions, key=lambda name: profile.functions[name]["stall"], default=""
        )
        return float(profile.whole["stall"]), longest

    def idle(self) -> float:
        """Return the part of a core that the scheduler needs without work."""
        before = self.control.call(load.begin)
        time.sleep(IDLE_S)
        after = self.control.call(load.end, PATIENCE_S)
        return float((after["cpu"] - before["cpu"]) / (after["time"] - before["time"]))

    def point(self, workers: int, stall: tuple[float, str], prefixes: int = 0) -> Point:
        """Return the figures of all rounds."""
        return Point(
            workers=workers,
            threads=self.threads,
            tasks=int(self.rounds[-1]["tasks"]),
            prefixes=prefixes,
            cpu=tuple(each["cpu"] for each in self.rounds),
            rate=max(each["rate"] for each in self.rounds),
            stall=stall[0],
            stalled_by=stall[1],
            lag=max(each["lag"] for each in self.rounds),
            idle=self.idle(),
            memory=float(psutil.Process(self.cluster.pid).memory_info().rss),
        )


def measure(wanted: Wanted, tell: Tell) -> tuple[Measured, ...]:
    """Measure all sides, in turns at each size.

    Raises:
        SchedprofError: if a cluster cannot be started or is lost, or a workload cannot run.
    """
    ladders: list[list[Point]] = [[] for _ in wanted.sides]
    for repeat in range(wanted.repeats):
        # Up and down, so that what slowly changes on the machine is not taken for growth.
        for workers in wanted.workers if repeat % 2 == 0 else reversed(wanted.workers):
            tell(f"schedprof: {workers} workers, cluster {repeat + 1} of {wanted.repeats}")
            with _sessions(wanted, workers) as sessions:
                for ladder, point in zip(ladders, _points(wanted, workers, sessions), strict=True):
                    ladder.append(point)
                about = [each.description for each in sessions]
    tell("schedprof: more tasks, more prefixes")
    others = _others(wanted) if wanted.is_sized else [((), ()) for _ in wanted.sides]
    return tuple(
        Measured(
            name=side.name,
            distributed=description["versions"]["distributed"],
            python=description["python"],
            workers=tuple(sorted(points, key=lambda each: each.workers)),
            tasks=tuple(tasks),
            prefixes=tuple(prefixes),
        )
        for side, points, (tasks, prefixes), description in zip(
            wanted.sides, ladders, others, about, strict=True
        )
    )


def _points(wanted: Wanted, workers: int, sessions: Sequence[_Session]) -> list[Point]:
    work = wanted.work(wanted.tasks * workers * wanted.threads)
    _rounds(sessions, work)
    return [each.point(workers, each.stall(work)) for each in sessions]


def _rounds(sessions: Sequence[_Session], work: Work) -> None:
    """Run rounds in turns, until enough CPU time is measured."""
    for each in sessions:
        each.rounds = []
    busy = 0.0
    for number in range(MOST_ROUNDS):
        if number >= LEAST_ROUNDS and busy >= BUSY_S:
            break
        for each in sessions if number % 2 else reversed(sessions):
            each.rounds.append(each.round(work))
        last = sessions[0].rounds[-1]
        busy += last["cpu"] * last["tasks"]


def _others(wanted: Wanted) -> list[tuple[list[Point], list[Point]]]:
    """Return the ladders of tasks and of prefixes of each side, at the smallest size."""
    found: list[tuple[list[Point], list[Point]]] = [([], []) for _ in wanted.sides]
    workers = wanted.workers[0]
    base = max(BASE_TASKS, wanted.tasks * workers * wanted.threads)
    with _sessions(wanted, workers) as sessions:
        for factor in FACTORS:
            _rounds(sessions, wanted.work(base * factor))
            for (tasks, _), each in zip(found, sessions, strict=True):
                tasks.append(each.point(workers, (0.0, "")))
        for number in PREFIXES:
            _rounds(sessions, partial(prefixes_of, size=2 * BASE_TASKS, prefixes=number))
            for (_, prefixes), each in zip(found, sessions, strict=True):
                prefixes.append(each.point(workers, (0.0, ""), number))
    return found


@contextmanager
def _sessions(wanted: Wanted, workers: int) -> Iterator[list[_Session]]:
    """Start a cluster of each side; end them all afterwards, also after a Ctrl-C."""
    patience_s = START_S + workers / WORKERS_A_SECOND
    with ExitStack() as opened:
        yield [
            opened.enter_context(_session(wanted, each, workers, patience_s))
            for each in wanted.sides
        ]


@contextmanager
def _session(wanted: Wanted, side: SideSpec, workers: int, patience_s: float) -> Iterator[_Session]:
    options = tuple({**wanted.options, **side.options}.items())
    spec = ClusterSpec("simulated", workers, wanted.threads, options, side.interpreter)
    cluster = SimulatedCluster.start(spec, timeout_s=patience_s)
    try:
        with (
            Control(cluster.address, timeout_s=patience_s) as control,
            open_scheduler(cluster, control) as scheduler,
        ):
            prefixes_of(scheduler.client, WARM_TASKS, 1)
            yield _Session(cluster, control, scheduler)
    finally:
        cluster.close()
