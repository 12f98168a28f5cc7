"""What happens to workers of a virtual cluster: planned by a test, or drawn from its seed."""

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
"""For how long: from less than a task to more than any."""

SILENCE = 40
"""How many times as long a worker is silent: a scheduler waits for a heartbeat for minutes."""

SCHEDULER = "scheduler"
"""What can be restarted; workers are killed, and others arrive."""

DOWN_S = 1.0
"""How long there is no scheduler, unless that is said."""

FACTOR = 10.0
"""How many times as slow a slow worker is."""


class Faults:
    """Lets workers be lost, be paused, be slow or be cut off, and lets new ones arrive."""

    def __init__(
        self, server: VirtualServer, make: Callable[..., Any], rate: float, seed: int
    ) -> None:
        """Draw faults for this part of all tasks."""
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

    @property
    def known(self) -> tuple[str, ...]:
        """Everything that can happen."""
        return (*self._acts, "arrive", "restart")

    def check(self, what: str, worker: str) -> str:
        """Return why this cannot be done, if so."""
        if what not in self.known:
            return f"a worker cannot {what!r}; known: {', '.join(self.known)}"
        if (what == "restart") != (worker == SCHEDULER):
            return f"only {SCHEDULER!r} can be restarted, and nothing else can happen to it"
        # Who arrives may have the name of a worker that is killed before.
        if what not in ("arrive", "restart") and self._named(worker) is None:
            return f"there is no worker {worker!r}; they are named 0, 1, 2, ..."
        return ""

    def act(self, what: str, worker: str, seconds: float) -> None:
        """Do it, for so many seconds; nothing if the worker has left meanwhile."""
        found = self._named(worker)
        if what == "arrive":
            self._arrive(worker)
        elif what == "restart":
            self._restart(seconds if seconds < float("inf") else DOWN_S)
        elif found is not None:
            self._acts[what](found, seconds)

    def tempt(self, worker: Any, seconds: float) -> None:
        """Draw whether something happens to a worker during a task of so many seconds."""
        if self._rate and self._random.random() < self._rate:
            what, lasting = self._random.choice(DRAWN), self._random.choice(LASTING_S)
            lasting *= SILENCE if what == "silence" else 1
            act = partial(self.act, what, worker.name, lasting)
            self._later(self._random.random() * seconds, act)
            if what == "kill":  # as a nanny does, or somebody who adds workers
                self._later(seconds + lasting, partial(self._arrive, worker.name))

    def find(self, address: str) -> Any:
        """Return the worker at an address, None if it has left."""
        return self._server.hollow.get(address)

    def _named(self, name: str) -> Any:
        return self._server.named(name)

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
        """Give the scheduler time to miss heartbeats; it looks for them from time to time."""
        ttl_s = parse_timedelta(dask.config.get("distributed.scheduler.worker-ttl") or 0)
        self._server.world.patient_until = self._server.world.loop.now + 2 * ttl_s

    def _slow(self, worker: Any, seconds: float) -> None:
        worker.pace /= FACTOR
        if seconds < float("inf"):
            self._later(seconds, partial(_hurry, worker))

    def _restart(self, seconds: float) -> None:
        """Let the scheduler die; after so many seconds there is a new one, which has new workers.

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
        for each in workers:
            each.lose_scheduler()
            self._arrive(each.name)
        self._later(seconds, lambda: self._server.keep(restarts.rise()))

    def arrive(self, name: str, threads: int) -> None:
        """Let a worker join that has a number of threads of its own."""
        self._arrive(name, nthreads=threads)

    def _arrive(self, name: str, **more: Any) -> None:
        if self._named(name) is None:
            arriving = asyncio.ensure_future(self._make(name=name, **more))
            self._arriving.add(arriving)
            arriving.add_done_callback(self._arriving.discard)


def _hurry(worker: Any) -> None:
    worker.pace *= FACTOR
