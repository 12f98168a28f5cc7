"""One hollow worker: distributed's own state machine with a simulated execution.

`WorkerState` decides what the worker answers to the scheduler, as in every real worker.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Generator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from distributed import worker_state_machine as machine
from distributed.comm.core import Comm, connect
from distributed.core import Status
from distributed.metrics import time
from distributed.versions import get_versions
from distributed.worker_state_machine import StateMachineEvent, WorkerState

from pytest_schedprof.virtual.behaviour import DROPPED, make_state
from pytest_schedprof.virtual.executor import Executor, SpilledData, data_of

if TYPE_CHECKING:
    from pytest_schedprof.virtual.hollow_server import WorkerServer

IO = {"read_bps": 0.0, "write_bps": 0.0}
SPILLED = {"memory": 0, "disk": 0}
NOTHING: dict[str, Any] = {}
NO_TRANSFERS = {
    f"{way}_{measure}": 0
    for way in ("incoming", "outgoing")
    for measure in ("bytes", "count", "count_total")
}
BASE_MEMORY = 100_000_000
"""Memory of a worker that holds no results."""


@cache
def versions() -> dict[str, Any]:
    """Return the versions of packages, cached: the lookup takes half of a worker's start."""
    return dict(get_versions())


def introduction(worker: HollowWorker) -> dict[str, Any]:
    """Return the message that registers a worker with the scheduler."""
    return {
        "op": "register-worker",
        "reply": False,
        "address": worker.address,
        "server_id": worker.server_id,
        "name": worker.name,
        "status": "running",
        "nthreads": worker.nthreads,
        "memory_limit": worker.memory_limit,
        "resources": {},
        "local_directory": "",
        "services": {},
        "nanny": None,
        "extra": {},
        "pid": os.getpid(),
        "versions": versions(),
        "now": time(),
        "stimulus_id": f"worker-connect-{time()}",
        "metrics": metrics(worker),
    }


def metrics(worker: HollowWorker) -> dict[str, Any]:
    """Return the metrics of a heartbeat; figures of real work are zero or constant.

    Workers share equal parts, because the scheduler keeps the last metrics of all workers.
    """
    state = worker.state if worker.has_state else None
    nbytes = state.nbytes if state else 0
    on_disk = state.data.on_disk if state and isinstance(state.data, SpilledData) else 0
    return {
        "task_counts": state.task_counter.current_count(by_prefix=False) if state else NOTHING,
        "bandwidth": _bandwidth(worker.server.behaviour.bandwidth),
        "digests_total_since_heartbeat": NOTHING,
        "managed_bytes": nbytes,
        "spilled_bytes": {"memory": on_disk, "disk": on_disk} if on_disk else SPILLED,
        "transfer": _transfer(state),
        "event_loop_interval": 0.02,
        "cpu": 0.0,
        "memory": BASE_MEMORY + nbytes - on_disk,
        "num_fds": 10,
        "time": time(),
        "host_net_io": IO,
        "host_disk_io": IO,
    }


def _transfer(state: WorkerState | None) -> dict[str, int]:
    if state is None or not state.transfer_incoming_count_total:
        return NO_TRANSFERS
    return {
        **NO_TRANSFERS,
        "incoming_bytes": state.transfer_incoming_bytes,
        "incoming_count": state.transfer_incoming_count,
        "incoming_count_total": state.transfer_incoming_count_total,
    }


@cache
def _bandwidth(total: float) -> dict[str, Any]:
    return {"total": total, "workers": NOTHING, "types": NOTHING}


logger = logging.getLogger(__name__)

STIMULI: Mapping[str, type[StateMachineEvent]] = {
    "acquire-replicas": machine.AcquireReplicasEvent,
    "cancel-compute": machine.CancelComputeEvent,
    "compute-task": machine.ComputeTaskEvent,
    "free-keys": machine.FreeKeysEvent,
    "refresh-who-has": machine.RefreshWhoHasEvent,
    "remove-replicas": machine.RemoveReplicasEvent,
    "remove-worker": machine.RemoveWorkerEvent,
    "steal-request": machine.StealRequestEvent,
}
"""Events of the state machine by the messages of the scheduler."""


class HollowWorker:
    """A worker as the scheduler sees it."""

    is_wanted_back = False
    """Whether the scheduler removed it in a restart, so that another must take its place."""

    make_executor: type[Executor] = Executor

    def __init__(self, server: WorkerServer, *, name: str, nthreads: int) -> None:
        self.server = server
        self.name = name
        self.nthreads = nthreads
        self.status = Status.init
        self.address = ""
        """Where others ask for the worker's data."""
        self.pace = server.behaviour.speed_of(name)
        """Factor of the speed at which it runs tasks."""
        self.interval_s = 1.0
        self._state: WorkerState | None = None
        self._executor: Executor | None = None
        self._ended: asyncio.Event | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._comm: Comm | None = None
        self._outbox: list[dict[str, Any]] = []

    def __await__(self) -> Generator[Any, None, HollowWorker]:
        return self._start().__await__()

    @property
    def state(self) -> WorkerState:
        """The state machine, made at its first use: of thousands of workers many get no task."""
        if self._state is None:
            self._state = make_state(self.address, self.nthreads, self._make_data())
        return self._state

    def _make_data(self) -> dict[Any, Any]:
        """Return where the worker keeps results."""
        return data_of(self.memory_limit, self.server.behaviour.disk)

    @property
    def has_state(self) -> bool:
        return self._state is not None

    @property
    def executor(self) -> Executor:
        """What simulates the state machine's instructions."""
        if self._executor is None:
            self._executor = self.make_executor(self)
        return self._executor

    @property
    def memory_limit(self) -> int:
        return int(self.server.behaviour.memory_limit)

    @property
    def data(self) -> Any:
        """Results by key."""
        return self.state.data

    @property
    def id(self) -> str:
        return self.server_id

    @property
    def contact_address(self) -> str:
        return self.address

    @property
    def loop(self) -> Any:
        return self.server.loop

    @property
    def _ongoing_background_tasks(self) -> Any:
        """What runs the coroutines of `Client.run(..., wait=False)`."""
        return self.server._ongoing_background_tasks

    @property
    def active_threads(self) -> dict[int, Any]:
        """Running tasks, as a real worker's attribute has them."""
        return dict(enumerate(self.executor.timers))

    @property
    def scheduler(self) -> Any:
        """An RPC to the scheduler, as a real worker has it."""
        return self.server.scheduler_rpc

    @property
    def server_id(self) -> str:
        """An ID that no other worker has, not even an earlier one of its name."""
        return f"hollow-{os.getpid()}-{self.name}-{id(self):x}"

    async def finished(self) -> None:
        """Wait until the worker has left."""
        self._ended = self._ended or asyncio.Event()
        if self.status is not Status.closed:
            await self._ended.wait()

    async def _start(self) -> HollowWorker:
        async with self.server.connection_slots:
            self.address = await self.server.open_address(self)
            comm = await self._register()
        self._comm = comm
        self.status = Status.running
        self._tasks = [
            asyncio.ensure_future(self._listen(comm)),
            asyncio.ensure_future(self._send_heartbeats()),
        ]
        for task in self._tasks:
            task.add_done_callback(self._on_task_done)
        return self

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        """Log a background task's failure, and leave: nobody awaits these tasks."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("hollow worker %s leaves: %r", self.name, error, exc_info=error)
            self._leave("its own error")

    async def _register(self) -> Comm:
        comm: Comm = await connect(
            self.server.scheduler_address, deserialize=False, **self.server.worker_args
        )
        comm.allow_offload = False  # messages are small, so their size need not be computed
        await comm.write(introduction(self), serializers=["msgpack"])
        answer = await comm.read(deserializers=["msgpack"])
        if answer["status"] != "OK":
            raise RuntimeError(f"the scheduler refuses {self.name}: {answer}")
        self.interval_s = answer["heartbeat-interval"]
        return comm

    async def _send_heartbeats(self) -> None:
        """Send heartbeats as often as the scheduler wants them."""
        while True:
            await asyncio.sleep(self.interval_s)
            try:
                answer = await self.server.scheduler.heartbeat_worker(
                    address=self.address,
                    now=time(),
                    metrics=metrics(self),
                    executing=self.executor.executing(),
                    extensions={},
                )
            except OSError:
                continue  # the stream shows whether the scheduler is gone
            if answer["status"] == "missing":
                return self._leave("worker-heartbeat-missing")
            self.interval_s = answer["heartbeat-interval"]

    async def _listen(self, comm: Comm) -> None:
        """Handle the scheduler's messages until the connection ends."""
        try:
            while self.status is not Status.closed:
                for message in await comm.read():
                    self._handle_message(dict(message))
        except OSError:
            pass
        finally:
            self._leave("the scheduler hung up")  # does nothing if it has left already

    def _handle_message(self, message: dict[str, Any]) -> None:
        op = message.pop("op")
        if op in STIMULI:
            self.handle(STIMULI[op](**message))
        elif op == "worker-status-change":
            self.change(Status[message["status"]], message["stimulus_id"])
        elif op == "close":
            self._leave(message.get("reason", ""))
        elif op == "shuffle-fail":
            self.executor.shuffles.forget(message["shuffle_id"], message["run_id"])
        else:
            self.server.warn_once_unknown(op)

    def handle(self, event: StateMachineEvent) -> None:
        """Pass an event to the state machine and simulate its instructions."""
        if self.status is Status.closed:
            return  # the event of a transfer that was under way
        instructions = self.state.handle_stimulus(event)
        if self.state.missing_dep_flight:
            self.server.lacking[self.address] = self
        for instruction in instructions:
            if isinstance(instruction, machine.SendMessageToScheduler):
                self.send(instruction.to_dict())
            elif isinstance(instruction, machine.Execute):
                self.executor.execute(instruction.key)
            elif isinstance(instruction, machine.GatherDep):
                self.executor.gather(instruction)
            else:
                self.server.warn_once_unknown(type(instruction).__name__)

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message to the scheduler; those of two milliseconds are sent together."""
        if not self._outbox:
            self.server.send_soon(self)
        self._outbox.append(message)

    async def flush(self) -> None:
        """Send all queued messages as one batch, as real workers do."""
        messages, self._outbox = self._outbox, []
        if self._comm is not None and messages:
            try:
                await self._comm.write(messages, serializers=["msgpack", "pickle"])
            except OSError:
                pass  # the scheduler is gone, and `_listen` ends for it

    def change(self, status: Status, stimulus_id: str) -> None:
        """Change the status, tell the scheduler, and pause or resume the state machine."""
        was, self.status = self.status, status
        self.send({"op": "worker-status-change", "status": status.name, "stimulus_id": stimulus_id})
        if status is Status.running and was is not status:
            self.handle(machine.UnpauseEvent(stimulus_id=stimulus_id))
        elif was is Status.running and status is not was:
            self.handle(machine.PauseEvent(stimulus_id=stimulus_id))

    def pause(self) -> None:
        """Pause like a worker that is short of memory, if it runs and does not retire."""
        if self.status is Status.running:
            self.change(Status.paused, f"worker-pause-{time()}")

    def resume(self) -> None:
        """Resume like a worker that has memory again, if it has paused."""
        if self.status is Status.paused:
            self.change(Status.running, f"worker-resume-{time()}")

    async def close(self) -> None:
        """Leave without a message to the scheduler, like a process that ends."""
        self._leave("closed")

    def _leave(self, reason: str) -> None:
        if self.status is Status.closed:
            return
        was_running = self.status in (Status.running, Status.paused)
        self.is_wanted_back = was_running and reason in DROPPED
        self.status = Status.closed
        if self._executor is not None:
            self._executor.end()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        comm, self._comm = self._comm, None
        if comm is not None:
            comm.abort()
        if self.address:
            self.server.close_address(self.address)
        if self._ended is not None:
            self._ended.set()


class NodeSlot:
    """Holds a node, and its replacement after a restart."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.node = make()

    async def until_left(self) -> None:
        """Wait until the node is closed for good; replace it after a restart."""
        await self.node.finished()
        while getattr(self.node, "is_wanted_back", False):
            self.node = self._make()
            await self.node
            await self.node.finished()
