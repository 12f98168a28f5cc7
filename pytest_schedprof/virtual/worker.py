"""A hollow worker in the scheduler's own process and time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from math import ceil, isclose
from typing import Any

from distributed.core import Status
from distributed.metrics import time
from distributed.worker_state_machine import GatherDep, StateMachineEvent

from pytest_schedprof.virtual.executor import Executor, data_of, seconds_to_read
from pytest_schedprof.virtual.hollow_worker import HollowWorker, introduction, metrics
from pytest_schedprof.virtual.lines import TO_SCHEDULER_S, Line, Link, Presence, send
from pytest_schedprof.virtual.loop import rounded
from pytest_schedprof.virtual.server import PATIENCE_S


def name_for_scheduler(name: str) -> str:
    """Return the ID under which the scheduler knows the worker of a name."""
    return f"virtual-{name}"


class ExactExecutor(Executor):
    """Simulates each duration exactly, however short it is: timers cost no real time here."""

    _worker: Any

    def _begin(self, seconds: float) -> None:
        self._worker.server.world.workers.draw(self._worker, seconds)

    def _receive(self, instruction: GatherDep, data: dict[Any, object]) -> None:
        """Receive the data; during a partition, wait as long as a connection would."""
        world, left_s = self._worker.server.world, self.cut_for(instruction.worker)
        if left_s > 0:
            received = world.expect(partial(super()._receive, instruction, data))
            world.loop.call_later(min(left_s, PATIENCE_S), received)
        else:
            super()._receive(instruction, data)

    def _is_lost(self, address: str) -> bool:
        return super()._is_lost(address) or self.cut_for(address) > 0

    def cut_for(self, address: str) -> float:
        """Return how much longer nothing arrives from a worker; what is but rounding is nothing."""
        server = self._worker.server
        sender = getattr(server.hollow.get(address), "cut_until", 0.0)
        return rounded(max(self._worker.cut_until, sender) - server.world.loop.now)

    def transfer(self, instruction: GatherDep) -> float:
        """Let a transfer take its time on both workers' links, which they share with others."""
        server = self._worker.server
        if server.world.journal.window is not None:
            count, nbytes = len(instruction.to_gather), instruction.total_nbytes
            server.world.journal.window.note_transfer(count, nbytes)
        alone = server.behaviour.transfer_seconds(instruction.total_nbytes, self._latency())
        sender = server.hollow.get(instruction.worker)
        if sender is None:
            return float(alone)
        data, now = sender.state.data, server.world.loop.now
        wire = instruction.total_nbytes / server.behaviour.bandwidth
        arrival = send(sender.link, self._worker.link, now, wire)
        waited = arrival - now - wire
        return float(alone + waited + seconds_to_read(data, list(instruction.to_gather)))

    def _after(self, seconds: float, call: Callable[[], None]) -> asyncio.Handle:
        world = self._worker.server.world
        return asyncio.get_running_loop().call_later(seconds, world.expect(call))


class VirtualWorker(HollowWorker):
    """Is connected to the scheduler by lines, which need no sockets."""

    server: Any
    make_executor = ExactExecutor

    def __init__(self, server: Any, *, name: str, nthreads: int) -> None:
        super().__init__(server, name=name, nthreads=nthreads)
        self._adding: asyncio.Task[None] | None = None
        self.link = Link()
        self.cut_until = self.silent_until = 0.0
        """The times from which messages, and heartbeats, reach the scheduler again."""
        self.paused_until = 0.0
        """When the last of its pauses is over."""
        self._line: Line | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._due = 0.0
        """When the next heartbeat is to be sent, or was if the worker rests."""
        self._news_at = 0.0
        """When something happened to it last."""

    @property
    def server_id(self) -> str:
        """The same in each run: its hash orders the scheduler's sets of workers."""
        return name_for_scheduler(self.name)

    def _make_data(self) -> dict[Any, Any]:
        note = self.server.world.journal.spilled
        return data_of(self.memory_limit, self.server.behaviour.disk, note)

    async def _start(self) -> VirtualWorker:
        self.join()
        while not self.has_joined():
            await asyncio.sleep(0)
        return self

    def join(self) -> None:
        """Register with the scheduler, whose coroutine runs until this worker leaves."""
        self.address = self.server.give_address(self)
        presence = self._comm = Presence(self.address, self._welcome)
        message = introduction(self)
        self.server.world.journal.passed("in", message)
        for name in ("op", "reply"):
            del message[name]
        self._adding = asyncio.ensure_future(
            self.server.real_scheduler.add_worker(presence, **message)
        )

    def has_joined(self) -> bool:
        """Whether the scheduler has accepted it; raise what the scheduler raised instead."""
        if self._adding is not None and self._adding.done():
            self._adding.result()
        return self.status is not Status.init

    def _welcome(self, answer: dict[str, Any]) -> None:
        world = self.server.world
        world.journal.passed("out", answer)
        if answer["status"] != "OK":
            raise RuntimeError(f"the scheduler refuses {self.name}: {answer}")
        self.status, self._adding = Status.running, None
        loop = asyncio.get_running_loop()
        latency = self.server.behaviour.seconds_on_way(f"from {self.address}")
        self._line = Line(
            loop, self._deliver, world.expect, interval=TO_SCHEDULER_S, latency=latency
        )
        # Real workers do not start at the same instant, so their heartbeats are spread too.
        self.interval_s = answer["heartbeat-interval"]
        self._news_at = loop.time()
        self._due = self._news_at + self.interval_s * self.server.phase(self)
        self._beat = loop.call_at(self._due, self._send_heartbeat)

    def cut_off(self, seconds: float) -> None:
        """Let no message arrive on either side for a time; those under way come late."""
        self._end_rest()
        self.cut_until = max(self.cut_until, self.server.world.loop.now + seconds)
        for line in (self._line, self.server.real_scheduler.stream_comms.get(self.address)):
            if line is not None:
                line.hold_until(self.cut_until)

    def be_silent(self, seconds: float) -> None:
        """Send no heartbeats for a time."""
        self._end_rest()
        self.silent_until = max(self.silent_until, self.server.world.loop.now + seconds)

    def pause_until(self, moment: float) -> None:
        """Pause until then, or longer if another pause lasts longer."""
        self.paused_until = max(self.paused_until, moment)
        self.pause()

    def end_pause(self, moment: float) -> None:
        """Resume if no other pause lasts longer than the one that was to end at this time.

        The clock may be a step of rounding before it, if the test's process has a timer there.
        """
        if moment >= self.paused_until:
            self.resume()

    def resume(self) -> None:
        """Resume, whatever pauses were planned."""
        self.paused_until = 0.0
        super().resume()

    def _send_heartbeat(self) -> None:
        now = self.server.world.loop.now
        if now >= max(self.cut_until, self.silent_until):
            executing = self.executor.executing() if self.has_state else {}
            if not executing and self._may_rest(now):
                self._beat = None
                self.server.rest(self)
                return
            answer = self.server.real_scheduler.heartbeat_worker(
                address=self.address,
                now=time(),
                metrics=metrics(self),
                executing=executing,
                extensions={},
            )
            if answer["status"] == "missing":
                return self._leave("worker-heartbeat-missing")
            self.interval_s = answer["heartbeat-interval"]
        self._due = now + self.interval_s
        self._beat = asyncio.get_running_loop().call_at(self._due, self._send_heartbeat)

    def _may_rest(self, now: float) -> bool:
        """Whether a heartbeat would change nothing of what the scheduler knows."""
        scheduler = self.server.real_scheduler
        # It looks back so far for what memory a worker needs beside its data.
        settling_s = scheduler.MEMORY_RECENT_TO_OLD_TIME + self.interval_s
        is_known = isclose(scheduler.bandwidth, self.server.behaviour.bandwidth)
        return bool(is_known and now - self._news_at > settling_s)

    def _end_rest(self) -> None:
        """Send heartbeats again, at the times at which they would have been sent all the while."""
        now = self._news_at = self.server.world.loop.now
        if self._beat is None and self._line is not None:
            self.server.resting.pop(self, None)
            missed = ceil((now - self._due) / self.interval_s)
            self._due += missed * self.interval_s
            self._beat = asyncio.get_running_loop().call_at(self._due, self._send_heartbeat)

    def receive(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            if self.status is Status.closed:
                break
            world = self.server.world
            world.journal.arrived(world.loop.now, "to", self.address, message)
            self._handle_message(dict(message))

    def handle(self, event: StateMachineEvent) -> None:
        """Pass an event to the state machine, and note what the worker holds afterwards."""
        super().handle(event)
        if self.status is Status.closed:
            return  # what it held and had to do was lost when it left
        self._end_rest()
        state, world = self.state, self.server.world
        free = state.nthreads - len(state.executing)
        held, ready = state.nbytes, len(state.ready) + len(state.constrained)
        world.workforce.update(world.loop.now, self.name, held, free, ready)

    def send(self, message: dict[str, Any]) -> None:
        if self._line is not None:
            self._line.send(message)

    def _deliver(self, messages: list[dict[str, Any]]) -> None:
        self.server.world.journal.passed("in", messages)
        self.server.deliver(self.address, messages)

    def _leave(self, reason: str) -> None:
        if self._beat is not None:
            self._beat.cancel()
        self.server.resting.pop(self, None)
        self.server.world.workforce.update(self.server.world.loop.now, self.name, 0, 0, 0)
        if self._line is not None:
            self._line.abort()
            self._line = None
        super()._leave(reason)
        if self.is_wanted_back:
            self.is_wanted_back = False
            self.server.keep(self.server.replace(self))
