"""A virtual cluster as the agent sees it: an extension of its scheduler.

What happens to its workers is planned by a test, or drawn from the seed.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import dask.config
from dask.utils import parse_timedelta

from pytest_schedprof.virtual.choices import Choices
from pytest_schedprof.virtual.journal import Journal, Log, Window, Workforce
from pytest_schedprof.virtual.loop import EPOCH, VirtualLoop, rounded
from pytest_schedprof.virtual.stories import (
    Fault,
    Witness,
    is_of_a_machine,
    tell_error,
    tell_horizon,
    tell_story,
    tell_stuck,
    tell_work,
    unfinished_tasks,
)

if TYPE_CHECKING:
    from pytest_schedprof.virtual.server import VirtualServer

QUIET_S = 120.0
"""A cluster is stuck if nothing is under way for this virtual time. Until then the scheduler has
done all that it does periodically, such as stealing and looking for lost workers."""


class Expected:
    """Something under way: a message, the end of a task or of a transfer, a planned fault."""

    __slots__ = ("_call", "_world")

    def __init__(self, world: World, call: Callable[[], None]) -> None:
        self._world = world
        self._call = call

    def __call__(self) -> None:
        self._world.quiet_since = self._world.loop.now
        self._call()


class World:
    """The cluster's clock, journal and workers."""

    workers: Faults

    def __init__(self, loop: VirtualLoop, scheduler: Any, horizon_s: float = math.inf) -> None:
        """Begin.

        Args:
            horizon_s: virtual time after which a test is told to end.
        """
        self.loop = loop
        self.journal = Journal()
        self.workforce = Workforce()
        self.choices = Choices(scheduler, loop)
        self.quiet_since = loop.now
        """When something that was under way last came to its end, or a client sent a graph."""
        self.patient_until = loop.now
        """Until then a quiet cluster is not stuck, because workers are cut off or silent."""
        self._horizon_s = horizon_s
        self._ends_at = loop.now + horizon_s
        self._scheduler = scheduler
        self._witness = Witness()
        loop.find_error, loop.find_fault = self._find_error, self._find_fault

    def expect(self, call: Callable[[], None]) -> Expected:
        """Mark a function: while a timer holds it, something is under way."""
        return Expected(self, call)

    async def pass_by(self, seconds: float) -> None:
        """Let time pass by while something is under way."""
        if seconds <= 0:
            return await asyncio.sleep(0)
        over = asyncio.Event()
        self.loop.call_later(seconds, self.expect(over.set))
        await over.wait()

    def plan(self, seconds: float, fault: str, workers: list[str], lasting: float | None) -> str:
        """Let something happen to workers after a delay; return why it cannot, or nothing."""
        for worker in workers:
            if refusal := self.workers.check(fault, worker):
                return refusal
        if fault == "arrive":
            self.workers.expected.update(workers)
        for worker in workers:
            act = partial(self.workers.act, fault, worker, math.inf if lasting is None else lasting)
            self.loop.call_later(max(0.0, seconds), self.expect(act))
        return ""

    def _find_error(self) -> Fault | None:
        """Return an error that distributed only logs, or that the test's client may keep quiet."""
        if (error := self._witness.take()) is None:
            return None
        trouble = "the cluster's own state is broken"
        if not is_of_a_machine(error):
            trouble = "the scheduler failed at what a client sent"
        return Fault(tell_error(trouble, self.loop.now - EPOCH, error))

    def _find_fault(self, is_patient: bool) -> Fault | None:
        """Return why the test must end before the clock moves, or None."""
        now = self.loop.now
        if now > self._ends_at:
            self._ends_at = now + self._horizon_s  # the end of the test takes time, too
            return Fault(tell_horizon(self._horizon_s))
        patience_s = QUIET_S + (self._scheduler.no_workers_timeout or 0)
        is_quiet = now - max(self.quiet_since, self.patient_until) >= patience_s
        return self._find_stuck(is_patient) if is_quiet else None

    def _find_stuck(self, is_patient: bool) -> Fault | None:
        """Return why nothing can happen any more, or None.

        Only periodic callbacks have run for a while, and they have changed nothing.
        """
        now = self.quiet_since = self.loop.now
        if any(isinstance(callback, Expected) for callback in self.loop.awaited()):
            return None
        unfinished = unfinished_tasks(self._scheduler)
        if not unfinished and not is_patient:
            return None
        text = tell_stuck(now - EPOCH, unfinished, self._story_of)
        return Fault(text + tell_work(asyncio.all_tasks(self.loop)), is_final=False)

    def _story_of(self, task: Any) -> str:
        address = getattr(task.processing_on, "address", "")
        worker = self.workers.at(address)
        return tell_story(task, self._scheduler, worker, EPOCH)

    def sent(self, graph: Mapping[Any, Any]) -> None:
        """Note a graph that a client sent."""
        self.quiet_since, self.loop.rounds = self.loop.now, 0
        self.journal.sent(graph)

    def begin_log(self) -> None:
        """Begin a log, whose hash is the same if everything was the same."""
        self.journal.log = Log(self.loop.now)

    def end_log(self) -> dict[str, str]:
        """End the log and return its hash and that of the graphs; nothing if there is none."""
        log, self.journal.log = self.journal.log, None
        return {} if log is None else {"hash": log.digest(), "graphs": log.digest_of_graphs()}

    def begin(self) -> None:
        self.journal.window = window = Window(self.workforce, self.loop.now)
        self.choices.begin(window.keys, window.names, window.begun)

    def end(self) -> dict[str, Any]:
        """End the window; return the log's hash, the figures, and what happened by column."""
        window, self.journal.window = self.journal.window, None
        assert window is not None
        choices = self.choices.end()
        holding, self.workforce.holding = self.workforce.holding, None
        assert holding is not None
        figures = window.report(self.loop.now)
        return {
            "begun": window.begun - EPOCH,
            "hash": figures.pop("hash"),
            "figures": figures,
            "keys": window.keys.in_order(),
            "workers": [name.removeprefix("inproc://") for name in window.names.in_order()],
            "choices": choices,
            "tasks": window.tasks.columns(),
            "transfers": window.transfers.columns(),
            "held": holding.columns(),
        }


DRAWN = ("kill", "pause", "slow", "partition", "silence")
"""What a seed may let happen to a worker."""

LASTING_S = (0.01, 0.1, 1.0, 10.0)
"""How long it lasts: from less than a task to more than any."""

SILENCE = 40
"""Factor of the time for which a worker is silent: schedulers wait minutes for a heartbeat."""

FACTOR = 10.0
"""How many times slower a slow worker is."""


class Faults:
    """Kills, pauses, slows and cuts off workers, and lets new ones arrive."""

    def __init__(
        self, server: VirtualServer, make: Callable[..., Any], rate: float, seed: int
    ) -> None:
        """Begin.

        Args:
            make: makes a worker of a name.
            rate: part of all tasks during which a fault is drawn.
        """
        self._server = server
        self._make = make
        self._rate = rate
        self._random = random.Random(f"{seed}:faults")
        self.expected: set[str] = set()
        """Names of workers whose arrival was planned."""
        self._arriving: set[str] = set()
        """Names of workers that begin to join in the next round of the loop."""
        self._acts: dict[str, Callable[[Any, float], None]] = {
            "kill": lambda worker, _: worker._leave("killed by the test"),
            "pause": self._pause,
            "resume": lambda worker, _: worker.resume(),
            "slow": self._slow,
            "partition": self._cut_off,
            "silence": self._silence,
        }

    def check(self, fault: str, worker: str) -> str:
        """Return why this cannot be done, or nothing."""
        known = (*self._acts, "arrive")
        if fault not in known:
            return f"a worker cannot {fault!r}; known: {', '.join(known)}"
        # A worker may arrive under the name of one that is killed before.
        is_known = fault == "arrive" or worker in self.expected
        if not is_known and self._named(worker) is None:
            return f"there is no worker {worker!r}; they are named 0, 1, 2, ..."
        return ""

    def act(self, fault: str, worker: str, seconds: float) -> None:
        """Do it, for a time; do nothing if the worker has left meanwhile."""
        target = self._named(worker)
        if fault == "arrive":
            self.arrive(worker)
        elif target is not None:
            self._acts[fault](target, seconds)

    def draw(self, worker: Any, seconds: float) -> None:
        """Draw whether something happens to a worker during a task of this length."""
        if self._rate and self._random.random() < self._rate:
            fault, lasting = self._random.choice(DRAWN), self._random.choice(LASTING_S)
            lasting *= SILENCE if fault == "silence" else 1
            act = partial(self.act, fault, worker.name, lasting)
            self._later(self._random.random() * seconds, act)
            if fault == "kill":  # as a nanny does, or somebody who adds workers
                self._later(seconds + lasting, partial(self.arrive, worker.name))

    def at(self, address: str) -> Any:
        """Return the worker at an address, or None if it has left."""
        return self._server.hollow.get(address)

    def _named(self, name: str) -> Any:
        workers = self._server.hollow.values()
        return next((worker for worker in workers if worker.name == name), None)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        world = self._server.world
        world.loop.call_later(seconds, world.expect(call))

    def _pause(self, worker: Any, seconds: float) -> None:
        end = rounded(self._server.world.loop.now + seconds)
        worker.pause_until(end)
        if seconds < float("inf"):
            self._later(seconds, partial(worker.end_pause, end))

    def _cut_off(self, worker: Any, seconds: float) -> None:
        worker.cut_off(seconds)
        self._have_patience()

    def _silence(self, worker: Any, seconds: float) -> None:
        worker.be_silent(seconds)
        self._have_patience()

    def _have_patience(self) -> None:
        """Give the scheduler time to miss heartbeats, which it checks periodically."""
        ttl_s = parse_timedelta(dask.config.get("distributed.scheduler.worker-ttl") or 0)
        self._server.world.patient_until = self._server.world.loop.now + 2 * ttl_s

    def _slow(self, worker: Any, seconds: float) -> None:
        worker.pace /= FACTOR

        def recover() -> None:
            worker.pace *= FACTOR

        if seconds < float("inf"):
            self._later(seconds, recover)

    def arrive(self, name: str, threads: int | None = None) -> None:
        """Let a worker join, unless there is one of its name."""
        if name not in self._arriving and self._named(name) is None:
            self._arriving.add(name)
            own = {} if threads is None else {"nthreads": threads}
            self._server.keep(self._join(name, own))

    async def _join(self, name: str, own: dict[str, Any]) -> None:
        self._arriving.discard(name)  # from now on it has an address
        await self._make(name=name, **own)
