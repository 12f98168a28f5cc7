"""The lines between the scheduler and a worker, which delay messages.

They replace distributed's `BatchedSend` and have its rhythm: the first message leaves at once, and
those that follow within an interval leave together at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from distributed.comm.core import Comm, CommClosedError

from pytest_schedprof.virtual.loop import rounded

TO_WORKER_S = 0.005
TO_SCHEDULER_S = 0.002
"""Intervals in which a scheduler and a worker send their messages."""


Expecting = Callable[[Callable[[], None]], Callable[[], None]]
"""Marks the function that a timer calls as something that is under way."""


class Line:
    """Messages in one direction."""

    __slots__ = (
        "_arrives_at",
        "_batch",
        "_deliver",
        "_expect",
        "_free_at",
        "_held",
        "_interval",
        "_is_closed",
        "_latency",
        "_leaves_at",
        "_loop",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[list[dict[str, Any]]], None],
        expect: Expecting,
        *,
        interval: float,
        latency: Callable[[], float],
    ) -> None:
        self._loop = loop
        self._expect = expect
        self._deliver = deliver
        self._interval = interval
        self._latency = latency
        self._leaves_at = float("-inf")
        """When the batch leaves to which messages are added."""
        self._arrives_at = float("-inf")
        """When the last batch arrives; no batch overtakes another."""
        self._batch: list[dict[str, Any]] = []
        self._is_closed = False
        self._free_at = float("-inf")
        self._held: list[list[dict[str, Any]]] | None = None
        """Batches that a partition delays."""

    def start(self, comm: Comm) -> None:
        """Do nothing: a line needs no connection."""

    def send(self, *messages: dict[str, Any]) -> None:
        """Send messages with the next batch."""
        if self._is_closed:
            raise CommClosedError("the worker has left")
        now = self._loop.time()
        if now > self._leaves_at or not self._batch:
            self._leaves_at = max(now, rounded(self._leaves_at + self._interval))
            self._batch = []
            arrival = self._expect(partial(self._arrive, self._batch))
            self._arrives_at = max(self._arrives_at, self._leaves_at + self._latency())
            self._loop.call_at(self._arrives_at, arrival)
        self._batch.extend(messages)

    def _arrive(self, batch: list[dict[str, Any]]) -> None:
        if self._batch is batch:
            self._batch = []
        if self._held is not None:
            self._held.append(batch)
        elif not self._is_closed:
            self._deliver(batch)

    def hold_until(self, moment: float) -> None:
        """Let messages arrive at that time at the earliest, in their order."""
        self._held = [] if self._held is None else self._held
        self._free_at = moment
        if moment < float("inf"):
            self._loop.call_at(moment, self._expect(partial(self._release, moment)))

    def _release(self, moment: float) -> None:
        if self._held is None or moment < self._free_at:
            return  # a longer partition has begun meanwhile
        held, self._held = self._held, None
        for batch in held:
            self._arrive(batch)

    def closed(self) -> bool:
        return self._is_closed

    def abort(self) -> None:
        """Lose what is under way."""
        self._is_closed = True


class Presence(Comm):
    """The connection from which the scheduler reads for as long as a worker stays.

    No message comes this way: they take the lines.
    """

    def __init__(self, address: str, welcome: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._address = address
        self._welcome = welcome
        self._left = asyncio.get_running_loop().create_future()

    @property
    def local_address(self) -> str:
        return "inproc://scheduler"

    @property
    def peer_address(self) -> str:
        return self._address

    async def read(self, deserializers: Any = None) -> Any:
        """Wait until the worker leaves."""
        await self._left
        raise CommClosedError(f"{self._address} has left")

    async def write(self, msg: Any, serializers: Any = None, on_error: Any = None) -> int:
        """Take the scheduler's answer to the registration."""
        self._welcome(msg)
        return 1

    async def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        """Tell the scheduler that the worker has left."""
        if not self._left.done():
            self._left.set_result(None)

    def closed(self) -> bool:
        return bool(self._left.done())


class Link:
    """The times from which a worker's link is free, for sending and for receiving."""

    __slots__ = ("receives_until", "sends_until")

    def __init__(self) -> None:
        self.sends_until = self.receives_until = float("-inf")


def send(sender: Link, receiver: Link, now: float, seconds: float) -> float:
    """Return when a transfer arrives, given its seconds on two free links.

    A link handles its transfers one after another. A transfer waits for both ends at the same time,
    so it does not block one of them while it waits for the other.
    """
    sender.sends_until = max(now, sender.sends_until) + seconds
    receiver.receives_until = max(now, receiver.receives_until) + seconds
    return max(sender.sends_until, receiver.receives_until)
