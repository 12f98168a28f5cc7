"""Counts messages and bytes on the connections of this process's schedulers.

In a test's own process workers and clients have connections too. A connection belongs to a
scheduler if the scheduler accepted it, or opened it and keeps it in its pool. The messages in which
both sides agree on a protocol come before that and are not counted. Neither are messages that are
sent by the clock and not for a task, because their number depends on how long the tasks took; in
virtual time, where that is exact, only heartbeats are not. Calls of this agent are no work of the
test: with its source they were nearly half of the bytes that a test of 200 tasks sent.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import Any
from weakref import WeakSet

from .patches import wrap

MODULES = ("distributed.comm.tcp", "distributed.comm.ws")
"""Each has its own references to the functions that turn messages into frames and back."""


HEARTBEATS = frozenset({"heartbeat_worker", "heartbeat-client", "adjust-heartbeat-interval"})

AGENT = b"lambda module, package, sources"
"""Is in the begin of what is pickled to call a function of this agent, with its source."""

CLOCKWORK = HEARTBEATS | {"identity"}
"""Operations that are asked for by the clock; the answers to them are left out too."""


class Traffic:
    """Wraps the functions that turn messages into frames and back while it counts."""

    def __init__(self, world: Any = None) -> None:
        """Count for a cluster in virtual time, if there is one, what its workers send too."""
        self.counts: dict[str, int] = {}
        self.left_out = CLOCKWORK if world is None else HEARTBEATS
        self.world = world
        self.undo = ExitStack()
        self.schedulers: WeakSet[Any] = import_module("distributed.scheduler").Scheduler._instances
        self.dumps: Callable[[Any], Any] = import_module("distributed.protocol").dumps
        self.known: WeakSet[Any] = WeakSet()
        """Connections that belong to a scheduler."""
        self.sessions: WeakSet[Any] = WeakSet()
        """Connections by which the session calls the agent, which is no work of the test."""

    def begin(self) -> None:
        """Wrap each function in a counter."""
        for scheduler in list(self.schedulers):  # the call that begins this is under way
            comms = scheduler._comms.items()
            self.sessions.update(comm for comm, op in comms if op == "run_function")
        for name in MODULES:
            module = import_module(name)
            for function, way in (("to_frames", "out"), ("from_frames", "in")):
                wrap(module, function, functools.partial(self._counted, way), self.undo)
        if self.world is not None:
            self.world.journal.meter = self.passed

    def end(self) -> None:
        if self.world is not None:
            self.world.journal.meter = None
        self.undo.close()

    # The connection is the caller's `self`. A wrapper of its methods would miss a message on every
    # connection, because a call of `read` is waiting on each of them when the recording begins.

    def _counted(self, way: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def counted(content: Any, *args: Any, **options: Any) -> Any:
            connection = sys._getframe(1).f_locals.get("self")
            result = await function(content, *args, **options)
            message, frames = (content, result) if way == "out" else (result, content)
            self._count(way, connection, message, frames)
            return result

        return counted

    def _count(self, way: str, connection: Any, message: Any, frames: Any) -> None:
        """Add a message, or all messages of a batch, of a scheduler's connection.

        Not if the scheduler is about to answer a request that the clock made.
        """
        if _calls_agent(message):
            self.sessions.add(connection)
        if connection not in self.sessions and self._is_schedulers(connection):
            requests = (scheduler._comms.get(connection) for scheduler in list(self.schedulers))
            if not any(request in self.left_out for request in requests):
                self._add(way, message, frames)

    def passed(self, way: str, message: Any) -> None:
        """Add what passed between scheduler and worker as objects, with the bytes it would have."""
        self._add(way, message, self.dumps(message))

    def _add(self, way: str, message: Any, frames: Any) -> None:
        batch = message if isinstance(message, (list, tuple)) else [message]
        ops = (message.get("op") if isinstance(message, dict) else None for message in batch)
        if number := sum(op not in self.left_out for op in ops):
            self._increase(f"messages_{way}", number)
            self._increase(f"bytes_{way}", sum(memoryview(frame).nbytes for frame in frames))

    def _increase(self, name: str, number: int) -> None:
        """Add to a count; a Counter would run code of the library, which is counted."""
        self.counts[name] = self.counts.get(name, 0) + number

    def _is_schedulers(self, connection: Any) -> bool:
        if connection not in self.known:
            for scheduler in list(self.schedulers):  # that accepted it, or keeps it in its pool
                pool = scheduler.rpc
                groups = (*pool.available.values(), *pool.occupied.values(), scheduler._comms)
                if any(connection in group for group in groups):
                    self.known.add(connection)
        return connection in self.known


def _calls_agent(message: Any) -> bool:
    if not (isinstance(message, dict) and message.get("op") == "run_function"):
        return False
    function: Any = message.get("function")
    is_known = isinstance(function, (bytes, bytearray, memoryview))
    return is_known and AGENT in bytes(function[:1000])
