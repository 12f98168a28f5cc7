"""What all workers of a virtual cluster share: the way to the scheduler, and that of requests."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any
from zlib import crc32

from distributed import Scheduler, SchedulerPlugin
from distributed.comm.core import Comm, CommClosedError
from distributed.comm.inproc import InProc, InProcListener, global_manager
from distributed.core import Server
from distributed.security import Security
from distributed.worker_state_machine import GatherDep
from tornado.ioloop import IOLoop

from pytest_schedprof.virtual.behaviour import Behaviour
from pytest_schedprof.virtual.choices import ChoosingLine
from pytest_schedprof.virtual.hollow_server import WorkerServer
from pytest_schedprof.virtual.hollow_worker import HollowWorker
from pytest_schedprof.virtual.lines import TO_WORKER_S
from pytest_schedprof.virtual.world import World

READINGS = ("monitor", "tick", "ticks")
"""Periodic callbacks that read the machine, and how late the loop is: every 20 ms."""


def leave_out_readings(server: Server) -> None:
    """Let no time pass by with readings that mean nothing in virtual time."""
    for name in READINGS:
        server.periodic_callbacks.pop(name, None)


LOOKS = 8
"""How often the scheduler hears of a worker in the time after which it takes it for lost."""

PATIENCE_S = 30.0
"""How long a request waits for a worker that is cut off: the default of dask's connections."""


class VirtualServer(WorkerServer):
    """Answers requests to workers, and delivers their messages to the scheduler."""

    def __init__(
        self, scheduler: Scheduler, behaviour: Behaviour, count: int, world: World
    ) -> None:
        inside = next(
            listener.contact_address
            for listener in scheduler.listeners
            if listener.contact_address.startswith("inproc://")
        )
        super().__init__(inside, behaviour, Security(), 1)
        leave_out_readings(self)
        self.real_scheduler = scheduler
        self.world = world
        self._count = count
        self._latency = behaviour.seconds_on_way("requests")
        self._incarnations: Counter[str] = Counter()
        self._running: set[asyncio.Task[Any]] = set()
        self._is_async = {
            op: inspect.iscoroutinefunction(handler)
            for op, handler in scheduler.stream_handlers.items()
        }
        self.resting: dict[HollowWorker, None] = {}
        """Workers of which no heartbeat would tell anything new."""
        self._is_remembering = False
        scheduler.add_plugin(_Lines(self), name=_Lines.name)
        manager: Any = global_manager
        manager.listeners = _Listeners(self, manager.listeners)
        for op, handler in list(self.handlers.items()):
            if "comm" in inspect.signature(handler).parameters:
                self.handlers[op] = self._after_its_way(handler)

    def _after_its_way(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Delay a request by its latency, and until the end of a partition, if it waits so long.

        Without that a client that repeats a request until the worker has got a message would wait
        for ever, because no time passes meanwhile.
        """

        @wraps(handler)
        async def handle(comm: Comm, **message: Any) -> Any:
            now, worker = self.world.loop.now, self._worker_of(comm)
            late_s = max(0.0, getattr(worker, "cut_until", 0.0) - now)
            await self.world.pass_by(self._latency() + min(late_s, PATIENCE_S))
            if late_s > PATIENCE_S:
                raise CommClosedError(f"no way to {comm.local_address}")
            answer = handler(comm, **message)
            return await answer if inspect.isawaitable(answer) else answer

        return handle

    async def _fetch(self, worker: HollowWorker, holders: list[str], key: Any) -> Any:
        """Copy a result over both workers' links, and not during a partition, as any transfer."""
        executor: Any = worker.executor
        for address in holders:
            sender = self.hollow.get(address)
            if sender is not None and key in sender.state.data:
                nbytes = sender.state.tasks[key].nbytes or 0
                copy = GatherDep(
                    worker=address, to_gather={key}, total_nbytes=nbytes, stimulus_id="copy"
                )
                await self.world.pass_by(executor.transfer(copy))
                if (late_s := executor.cut_for(address)) > 0:
                    await self.world.pass_by(min(late_s, PATIENCE_S))
                if executor.cut_for(address) <= 0:
                    break
                holders = [other for other in holders if other != address]
        return await super()._fetch(worker, holders, key)

    def give_address(self, worker: HollowWorker) -> str:
        """Give the worker an address that none has had: others may ask an old one for its data."""
        self._incarnations[worker.name] += 1
        restarts = self._incarnations[worker.name] - 1
        address = f"inproc://worker-{worker.name}{f'-{restarts}' if restarts else ''}"
        self.hollow[address] = worker
        return address

    def close_address(self, address: str) -> None:
        if self.hollow.pop(address, None) is not None:
            self.left.add(address)

    async def replace(self, worker: HollowWorker) -> None:
        """Start another worker in the place of one that the scheduler restarts."""
        await type(worker)(self, name=worker.name, nthreads=worker.nthreads)

    def rest(self, worker: HollowWorker) -> None:
        """Send no heartbeats of a worker until something happens to it: an hour has 720,000."""
        self.resting[worker] = None
        if not self._is_remembering:
            self._remember()

    def _remember(self) -> None:
        """Keep the scheduler from taking workers that rest for lost."""
        scheduler = self.real_scheduler
        for worker in self.resting:
            if worker.address in scheduler.workers:
                scheduler.workers[worker.address].last_seen = self.world.loop.now
        self._is_remembering = bool(self.resting)
        if self.resting and (ttl := scheduler.worker_ttl):
            self.world.loop.call_later(ttl / LOOKS, self._remember)

    def phase(self, worker: HollowWorker) -> float:
        """Return the part of the interval after which a worker sends its first heartbeat."""
        number = int(worker.name) if worker.name.isdigit() else crc32(worker.name.encode())
        return (number % self._count + 1) / self._count

    def keep(self, coroutine: Any) -> None:
        """Run a coroutine, and hold its task: another one may be collected before its end."""
        task = asyncio.ensure_future(coroutine)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def deliver(self, address: str, messages: list[dict[str, Any]]) -> None:
        """Let the scheduler handle a worker's messages as those of a stream."""
        scheduler = self.real_scheduler
        for message in messages:
            if address not in scheduler.stream_comms:
                break
            self.world.journal.arrived(self.world.loop.now, "from", address, message)
            op = message.pop("op")
            handled = scheduler.stream_handlers[op](worker=address, **message)
            if self._is_async.get(op):
                self.keep(handled)


class _Lines(SchedulerPlugin):
    """Replaces each worker's `BatchedSend` by a line, and notes decisions.

    One plugin does both, because the scheduler's loops over its plugins are counted.
    """

    name = "schedprof-lines"

    def __init__(self, server: VirtualServer) -> None:
        self._server = server
        self.transition = server.world.choices.transition  # type: ignore[method-assign]

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        world, behaviour = self._server.world, self._server.behaviour
        receiver: Any = self._server.hollow[worker]
        line: Any = ChoosingLine(
            world.loop,
            receiver.receive,
            world.expect,
            interval=TO_WORKER_S,
            latency=behaviour.seconds_on_way(f"to {worker}"),
        )
        line.choices, line.journal, line.address = world.choices, world.journal, worker
        scheduler.stream_comms[worker] = line


class _Listeners(dict[str, Any]):
    """The listeners of this process; one of a worker is made when somebody connects to it."""

    def __init__(self, server: VirtualServer, others: Mapping[str, Any]) -> None:
        super().__init__(others)
        self._server = server

    def get(self, name: str, default: Any = None) -> Any:
        if f"inproc://{name}" in self._server.hollow:
            return _Listener(name, self._server, self._server.handle_comm, ("out", "in"))
        listener = super().get(name, default)
        if f"inproc://{name}" == self._server.scheduler_address:
            return _Listener(name, self._server, listener.comm_handler, ("in", "out"))
        return listener


class _Listener(InProcListener):
    """Accepts connections within the process, without a task that waits for them."""

    def __init__(
        self,
        name: str,
        server: VirtualServer,
        handle: Callable[[Comm], Any],
        ways: tuple[str, str],
    ) -> None:
        super().__init__(name, handle, deserialize=False)  # type: ignore[no-untyped-call]
        self.loop = IOLoop.current()
        self._server = server
        self._ways = ways

    def connect_threadsafe(self, request: Any) -> None:
        comm = _Connection(
            local_addr=self.contact_address,
            peer_addr=f"inproc://{request.c_addr}",
            read_q=request.c2s_q,
            write_q=request.s2c_q,
            write_loop=request.c_loop,
            deserialize=False,
        )
        comm.passed = self._server.world.journal.passed
        comm.ways = self._ways
        request.conn_event.set()
        self._server.keep(self._handle_stream(comm))  # type: ignore[no-untyped-call]


class _Connection(InProc):
    """The accepted end of a connection between the scheduler and a worker.

    Its messages are counted, without those in which both sides agree on a protocol.
    """

    passed: Callable[[str, Any], None]
    ways: tuple[str, str]
    """The directions of messages that are read and written."""

    async def read(self, deserializers: Any = "ignored") -> Any:
        message = await super().read(deserializers)  # type: ignore[no-untyped-call]
        if self.remote_info:
            self.passed(self.ways[0], message)
        return message

    async def write(self, msg: Any, serializers: Any = None, on_error: Any = None) -> Any:
        if self.remote_info:
            self.passed(self.ways[1], msg)
        return await super().write(msg, serializers, on_error)  # type: ignore[no-untyped-call]
