"""Measures what a task costs a scheduler, on clusters of several sizes.

On a simulated cluster the scheduler has a process of its own, and hollow workers have their results
at once, so that it always has work. On a virtual cluster the workers are in its process, and
samples by CPU time tell what is the scheduler's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter  # a virtual cluster changes that of the module
from typing import Any, TypeAlias

from distributed import Client

from pytest_schedprof.agent import load
from pytest_schedprof.analysis.tally import tally_blocks, total
from pytest_schedprof.backends.builtin.cputime import CpuTimeBackend
from pytest_schedprof.backends.builtin.stalls import StallsBackend
from pytest_schedprof.clusters.contract import ClusterSpec
from pytest_schedprof.clusters.own import OwnCluster
from pytest_schedprof.clusters.simulated import SimulatedCluster
from pytest_schedprof.clusters.under_test import SchedulerUnderTest, open_scheduler
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.errors import ClusterError, SchedprofError, as_own
from pytest_schedprof.model.capacity import Measured, Point
from pytest_schedprof.model.profile import SampleProfile
from pytest_schedprof.remote.control import Control
from pytest_schedprof.workloads.graphs import prefixes_of

PATIENCE_S = 600.0
START_S = 60.0
WORKERS_A_SECOND = 20
"""How many workers join at least, of the time that a cluster may take to start."""

BUSY_S = 1.5
"""CPU time of the rounds of one cluster together."""

LONG_S = 10.0
"""CPU time after which no round follows, however few there were."""

FEW_ROUNDS, LEAST_ROUNDS, MOST_ROUNDS = 2, 3, 10

WARM_TASKS = 300
"""Tasks that a new cluster runs first, which are not measured."""

LEAST_CAUSED = 0.5
"""Part of a round's CPU time that its tasks have caused at least."""

NO_STALL = (0.0, "")

FACTORS = (1, 2, 4)
"""How many times more tasks the rounds of the ladder of tasks have."""

BASE_TASKS = 500
"""Least tasks of a round of the ladders of tasks and of prefixes."""

PREFIXES = (1, 20, 400)

SIMULATED, VIRTUAL = "simulated", "virtual"
CLUSTERS: dict[str, type[OwnCluster]] = {SIMULATED: SimulatedCluster, VIRTUAL: VirtualCluster}

IDLE_S = {SIMULATED: 2.0, VIRTUAL: 10.0}
"""How long a scheduler is watched without work."""

SAMPLES_HZ = 250

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
    kind: str = SIMULATED
    """Kind of the clusters."""
    with_stalls: bool = True
    """Whether to time the callbacks of the event loop, in a round of its own."""
    least_tasks: int = 1
    """Tasks that must end in each round."""
    is_sized: bool = True
    """Whether the number of tasks can be chosen: that of a recorded workload cannot."""


class Session:
    """One cluster under load."""

    def __init__(self, cluster: OwnCluster, control: Control, at: SchedulerUnderTest) -> None:
        self.cluster, self.control, self.client = cluster, control, at.client
        self.description = at.description
        self.threads = int(at.description["threads"])
        self.rounds: list[dict[str, float]] = []
        self.idle = self._rest()
        """Part of a core that the scheduler needs without work."""

    def round(self, work: Work) -> dict[str, float]:
        """Run the work once; return what it cost."""
        ended = own_part(self.control) if self.cluster.kind == VIRTUAL else None
        before = self.control.call(load.begin)
        begun = perf_counter()
        self._run(work)
        seconds = perf_counter() - begun
        after = self.control.call(load.end, PATIENCE_S, timeout_s=PATIENCE_S)
        tasks = after["tasks"] - before["tasks"]
        if not tasks:
            raise ClusterError("schedprof: the workload has no task that the scheduler finished")
        spent = after["cpu"] - before["cpu"]
        # What it does without work, such as to answer heartbeats, is no cost of a task. That was
        # measured at another moment, and on a noisy machine it may be more than all that was spent.
        caused = max(LEAST_CAUSED * spent, spent - self.idle * (after["at"] - before["at"]))
        cpu = caused / tasks * (ended() if ended else 1.0)
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
        backend = StallsBackend(rate_hz=1, options={})
        recording = backend.start(self.control, timeout_s=PATIENCE_S)
        self._run(work)
        self.control.call(load.wait_until_empty, PATIENCE_S, timeout_s=PATIENCE_S)
        content = recording.stop(timeout_s=PATIENCE_S).content
        profile: Any = backend.read(content, lambda places: [name for _, name, _ in places])
        longest = max(
            profile.functions, key=lambda name: profile.functions[name]["stall"], default=""
        )
        return float(profile.whole["stall"]), longest

    def _rest(self) -> float:
        before = self.control.call(load.begin)
        # On the client's loop, which has virtual time on a virtual cluster.
        self.client.sync(asyncio.sleep, IDLE_S[self.cluster.kind])
        after = self.control.call(load.end, PATIENCE_S)
        return float((after["cpu"] - before["cpu"]) / (after["at"] - before["at"]))

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
            idle=self.idle,
            memory=float(self.control.call(load.memory)),
        )


def own_part(control: Control) -> Callable[[], float]:
    """Begin to sample; return what ends that, and tells the scheduler's part of the CPU time."""
    backend = CpuTimeBackend(rate_hz=SAMPLES_HZ, options={})
    recording = backend.start(control, timeout_s=PATIENCE_S)

    def ended() -> float:
        content = recording.stop(timeout_s=PATIENCE_S).content
        profile = backend.read(content, control.name_places)
        assert isinstance(profile, SampleProfile)
        return total(tally_blocks(profile)).busy_part

    return ended


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
    others = _others(wanted, tell) if wanted.is_sized else [([], []) for _ in wanted.sides]
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


def _points(wanted: Wanted, workers: int, sessions: Sequence[Session]) -> list[Point]:
    work = wanted.work(wanted.tasks * workers * wanted.threads)
    _rounds(sessions, work)
    ended = int(min(each.rounds[-1]["tasks"] for each in sessions))
    if ended < wanted.least_tasks:
        raise ClusterError(
            f"schedprof: with {workers} workers only {ended} tasks ended of at least "
            f"{wanted.least_tasks}: clients released the others before; give more workers"
        )
    stalls = [each.stall(work) if wanted.with_stalls else NO_STALL for each in sessions]
    return [each.point(workers, stall) for each, stall in zip(sessions, stalls, strict=True)]


def _rounds(sessions: Sequence[Session], work: Work, least: int = LEAST_ROUNDS) -> None:
    """Run rounds in turns, until enough CPU time is measured."""
    for each in sessions:
        each.rounds = []
    busy = 0.0
    for number in range(MOST_ROUNDS):
        enough = (BUSY_S if least > FEW_ROUNDS else 0.0) if number >= least else LONG_S
        if busy >= enough:
            break
        for each in sessions if number % 2 else reversed(sessions):
            each.rounds.append(each.round(work))
        last = sessions[0].rounds[-1]
        busy += last["cpu"] * last["tasks"]


def _others(wanted: Wanted, tell: Tell) -> list[tuple[list[Point], list[Point]]]:
    """Return the ladders of tasks and of prefixes of each side, at the smallest size."""
    tell("schedprof: more tasks, more prefixes")
    found: list[tuple[list[Point], list[Point]]] = [([], []) for _ in wanted.sides]
    workers = wanted.workers[0]
    base = max(BASE_TASKS, wanted.tasks * workers * wanted.threads)
    with _sessions(wanted, workers) as sessions:
        for factor in FACTORS:
            _rounds(sessions, wanted.work(base * factor), FEW_ROUNDS)
            for (tasks, _), each in zip(found, sessions, strict=True):
                tasks.append(each.point(workers, NO_STALL))
        for number in PREFIXES:
            _rounds(sessions, partial(prefixes_of, size=BASE_TASKS, prefixes=number), FEW_ROUNDS)
            for (_, prefixes), each in zip(found, sessions, strict=True):
                prefixes.append(each.point(workers, NO_STALL, number))
    return found


@contextmanager
def _sessions(wanted: Wanted, workers: int) -> Iterator[list[Session]]:
    """Start a cluster of each side; end them all afterwards, also after a Ctrl-C."""
    patience_s = START_S + workers / WORKERS_A_SECOND
    with ExitStack() as opened:
        yield [
            opened.enter_context(_session(wanted, each, workers, patience_s))
            for each in wanted.sides
        ]


@contextmanager
def _session(wanted: Wanted, side: SideSpec, workers: int, patience_s: float) -> Iterator[Session]:
    options = tuple({**wanted.options, **side.options}.items())
    spec = ClusterSpec(wanted.kind, workers, wanted.threads, options, side.interpreter)
    cluster = CLUSTERS[wanted.kind].start(spec, timeout_s=patience_s)
    try:
        with (
            cluster.open_line(patience_s) as control,
            open_scheduler(cluster, control) as scheduler,
        ):
            prefixes_of(scheduler.client, WARM_TASKS, 1)
            yield Session(cluster, control, scheduler)
    finally:
        cluster.close()
