"""What happens to workers of a virtual cluster: a test plans it, or its seed draws it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import dask.config
from dask.utils import parse_timedelta

from pytest_schedprof.virtual.server import VirtualServer

DRAWN = ("kill", "pause", "slow", "partition", "silence")
"""What a seed may let happen to a worker."""

LASTING_S = (0.01, 0.1, 1.0, 10.0)
"""How long it lasts: from less than a task to more than any."""

SILENCE = 40
"""Factor of the time for which a worker is silent: schedulers wait minutes for a heartbeat."""

SCHEDULER = "scheduler"
"""The only one that can be restarted; workers are killed, and others arrive."""

DOWN_S = 1.0
"""How long there is no scheduler, by default."""

FACTOR = 10.0
"""How many times slower a slow worker is."""


class Faults:
    """Kills, pauses, slows and cuts off workers, and lets new ones arrive."""

    def __init__(
        self, server: VirtualServer, make: Callable[..., Any], rate: float, seed: int
    ) -> None:
        """Begin.

        Args:
            server: of the workers.
            make: makes a worker of a name.
            rate: part of all tasks during which a fault is drawn.
            seed: of what is drawn.
        """
        self._server = server
        self._make = make
        self._rate = rate
        self._random = random.Random(f"{seed}:faults")
        self._arriving: set[asyncio.Future[Any]] = set()
        self._acts: dict[str, Callable[[Any, float], None]] = {
            "kill": lambda worker, _: worker._leave("killed by the test"),
            "pause": self._pause,
            "resume": lambda worker, _: worker.resume(),
            "slow": self._slow,
            "partition": self._cut_off,
            "silence": self._silence,
        }

    def check(self, what: str, worker: str) -> str:
        """Return why this cannot be done, or nothing."""
        known = (*self._acts, "arrive", "restart")
        if what not in known:
            return f"a worker cannot {what!r}; known: {', '.join(known)}"
        if (what == "restart") != (worker == SCHEDULER):
            return f"only {SCHEDULER!r} can be restarted, and nothing else can happen to it"
        # A worker may arrive under the name of one that is killed before.
        if what not in ("arrive", "restart") and self._named(worker) is None:
            return f"there is no worker {worker!r}; they are named 0, 1, 2, ..."
        return ""

    def act(self, what: str, worker: str, seconds: float) -> None:
        """Do it, for a time; do nothing if the worker has left meanwhile."""
        target = self._named(worker)
        if what == "arrive":
            self.arrive(worker)
        elif what == "restart":
            self._restart(seconds if seconds < float("inf") else DOWN_S)
        elif target is not None:
            self._acts[what](target, seconds)

    def draw(self, worker: Any, seconds: float) -> None:
        """Draw whether something happens to a worker during a task of this length."""
        if self._rate and self._random.random() < self._rate:
            what, lasting = self._random.choice(DRAWN), self._random.choice(LASTING_S)
            lasting *= SILENCE if what == "silence" else 1
            act = partial(self.act, what, worker.name, lasting)
            self._later(self._random.random() * seconds, act)
            if what == "kill":  # as a nanny does, or somebody who adds workers
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
        worker.pause()
        if seconds < float("inf"):
            self._later(seconds, partial(self.act, "resume", worker.name, 0.0))

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

    def _restart(self, seconds: float) -> None:
        """Let the scheduler die; after a time there is a new one, which has new workers.

        A worker that loses its scheduler ends, and so does its nanny. Whoever started it, such as
        Kubernetes, starts it again.
        """
        restarts = self._server.restarts
        if not restarts.is_up.is_set():
            return  # it is dead already
        workers: list[Any] = list(self._server.hollow.values())
        world = self._server.world
        world.journal.note(world.loop.now, "the scheduler died")
        restarts.die()
        for worker in workers:
            worker.lose_scheduler()
            self.arrive(worker.name)
        self._later(seconds, lambda: self._server.keep(restarts.rise()))

    def arrive(self, name: str, threads: int | None = None) -> None:
        """Let a worker join, unless there is one of its name."""
        if self._named(name) is None:
            own = {} if threads is None else {"nthreads": threads}
            arriving = asyncio.ensure_future(self._make(name=name, **own))
            self._arriving.add(arriving)
            arriving.add_done_callback(self._arriving.discard)
