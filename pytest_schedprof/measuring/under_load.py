"""One cluster under load: what a round of work costs its scheduler, and how late its loop is.

On a simulated cluster the scheduler has a process of its own, and hollow workers have their results
at once, so that it always has work. On a virtual cluster the workers are in its process, and
samples by CPU time tell what is the scheduler's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter  # a virtual cluster changes that of the module
from typing import NamedTuple

from distributed import Client

from pytest_schedprof.agent import load
from pytest_schedprof.clusters.contract import ClusterSpec
from pytest_schedprof.clusters.own import OwnCluster
from pytest_schedprof.clusters.simulated import SimulatedCluster
from pytest_schedprof.clusters.under_test import SchedulerUnderTest, open_scheduler
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.errors import ClusterError, SchedprofError, as_own
from pytest_schedprof.measuring.wanted import SIMULATED, VIRTUAL, SideSpec, Wanted, Work
from pytest_schedprof.measuring.watching import PATIENCE_S, longest_stall, own_part
from pytest_schedprof.model.capacity import Point
from pytest_schedprof.remote.control import Control
from pytest_schedprof.workloads.graphs import prefixes_of

START_S = 60.0
WORKERS_A_SECOND = 20
"""How many workers join at least, of the time that a cluster may take to start."""

WARM_TASKS = 300
"""Tasks that a new cluster runs first, which are not measured."""

LEAST_CAUSED = 0.5
"""Part of a round's CPU time that its tasks have caused at least."""

CLUSTERS: dict[str, type[OwnCluster]] = {SIMULATED: SimulatedCluster, VIRTUAL: VirtualCluster}

IDLE_S = {SIMULATED: 2.0, VIRTUAL: 10.0}
"""How long a scheduler is watched without work."""


class Watched(NamedTuple):
    """What a scheduler did while something drove a load."""

    result: float
    """What the driver returned."""
    tasks: int
    seconds: float
    cpu: float
    lag: float
    stall: float


class Session:
    """One cluster under load."""

    def __init__(
        self, cluster: OwnCluster, control: Control, at: SchedulerUnderTest, workers: int
    ) -> None:
        self.cluster, self.control, self.client = cluster, control, at.client
        self.workers = workers
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
        self.run(work)
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

    def run(self, work: Work) -> None:
        """Run the work once."""
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
        ended = longest_stall(self.control)
        self.run(work)
        self.control.call(load.wait_until_empty, PATIENCE_S, timeout_s=PATIENCE_S)
        return ended()

    def watch(self, drive: Callable[[], float]) -> Watched:
        """Call what drives a load; return what the scheduler did meanwhile."""
        ended = longest_stall(self.control)
        before = self.control.call(load.begin)
        result = 0.0

        def work(client: Client) -> None:
            nonlocal result
            result = drive()

        self.run(work)
        after = self.control.call(load.end, PATIENCE_S, timeout_s=PATIENCE_S)
        stall, _ = ended()
        return Watched(
            result=result,
            tasks=after["tasks"] - before["tasks"],
            seconds=after["at"] - before["at"],
            cpu=after["cpu"] - before["cpu"],
            lag=after["lag"],
            stall=stall,
        )

    def _rest(self) -> float:
        before = self.control.call(load.begin)
        # On the client's loop, which has virtual time on a virtual cluster.
        self.client.sync(asyncio.sleep, IDLE_S[self.cluster.kind])
        after = self.control.call(load.end, PATIENCE_S)
        return float((after["cpu"] - before["cpu"]) / (after["at"] - before["at"]))

    def point(self, stall: tuple[float, str], prefixes: int = 0) -> Point:
        """Return the figures of all rounds."""
        return Point(
            workers=self.workers,
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


def patience_of(workers: int) -> float:
    """Return how long a cluster may take to start."""
    return START_S + workers / WORKERS_A_SECOND


@contextmanager
def sessions(wanted: Wanted, workers: int) -> Iterator[list[Session]]:
    """Start a cluster of each side; end them all afterwards, also after a Ctrl-C."""
    patience_s = patience_of(workers)
    with ExitStack() as opened:
        yield [
            opened.enter_context(session(wanted, each, workers, patience_s))
            for each in wanted.sides
        ]


@contextmanager
def session(wanted: Wanted, side: SideSpec, workers: int, patience_s: float) -> Iterator[Session]:
    """Start a cluster of one side; end it afterwards."""
    options = tuple({**wanted.options, **side.options}.items())
    spec = ClusterSpec(wanted.kind, workers, wanted.threads, options, side.interpreter)
    cluster = CLUSTERS[wanted.kind].start(spec, timeout_s=patience_s)
    try:
        with (
            cluster.open_line(patience_s) as control,
            open_scheduler(cluster, control) as scheduler,
        ):
            prefixes_of(scheduler.client, WARM_TASKS, 1)
            yield Session(cluster, control, scheduler, workers)
    finally:
        cluster.close()
