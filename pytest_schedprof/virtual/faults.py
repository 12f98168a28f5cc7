"""What a test plans for the workers of a virtual cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pytest_schedprof.virtual.server import VirtualServer


class Faults:
    """Kills, pauses and resumes workers, and lets new ones arrive."""

    def __init__(self, server: VirtualServer, make: Callable[..., Any]) -> None:
        self._server = server
        self._make = make
        self._arriving: set[asyncio.Future[Any]] = set()
        self._acts: dict[str, Callable[[str], None]] = {
            "kill": self._kill,
            "pause": self._pause,
            "resume": self._resume,
            "arrive": self._arrive,
        }

    def check(self, what: str, worker: str) -> str:
        """Return why this cannot be done, if so."""
        if what not in self._acts:
            return f"a worker cannot {what!r}; known: {', '.join(self._acts)}"
        is_there = self._find(worker) is not None
        if what == "arrive" and is_there:
            return f"there is a worker {worker!r} already"
        if what != "arrive" and not is_there:
            return f"there is no worker {worker!r}; they are named 0, 1, 2, ..."
        return ""

    def act(self, what: str, worker: str) -> None:
        """Do it; nothing if the worker has left meanwhile."""
        self._acts[what](worker)

    def _find(self, name: str) -> Any:
        return self._server.hollow.get(f"inproc://worker-{name}")

    def _kill(self, name: str) -> None:
        if (worker := self._find(name)) is not None:
            worker._leave("killed by the test")

    def _pause(self, name: str) -> None:
        if (worker := self._find(name)) is not None:
            worker.pause()

    def _resume(self, name: str) -> None:
        if (worker := self._find(name)) is not None:
            worker.resume()

    def _arrive(self, name: str) -> None:
        if self._find(name) is None:
            arriving = asyncio.ensure_future(self._make(name=name))
            self._arriving.add(arriving)
            arriving.add_done_callback(self._arriving.discard)
