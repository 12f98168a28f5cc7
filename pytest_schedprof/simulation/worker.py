"""One hollow worker: distributed's own state machine, with nothing behind it but a pretence.

What a worker answers to a scheduler is decided by `WorkerState`, as in every worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from dask.config import get as get_config
from dask.utils import parse_bytes
from distributed import worker_state_machine as machine
from distributed.comm.core import Comm, connect
from distributed.core import Status
from distributed.metrics import time
from distributed.worker_state_machine import StateMachineEvent, WorkerState

from pytest_schedprof.clusters.nodes import DROPPED
from pytest_schedprof.simulation.introduction import introduction, metrics
from pytest_schedprof.simulation.pretence import Pretence

if TYPE_CHECKING:
    from pytest_schedprof.simulation.desk import Desk

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
"""What the scheduler's messages mean to the state machine."""


class HollowWorker:
    """A worker as the scheduler sees it."""

    is_wanted_back = False
    """Whether the scheduler dropped it in a restart: then another takes its place."""

    memory_limit = 4 * 2**30

    def __init__(self, desk: Desk, *, name: str, nthreads: int) -> None:
        self.desk = desk
        self.name = name
        self.status = Status.init
        self.state = WorkerState(
            nthreads=nthreads,
            validate=False,
            transfer_incoming_count_limit=get_config("distributed.worker.connections.outgoing"),
            transfer_message_bytes_limit=parse_bytes(
                get_config("distributed.worker.transfer.message-bytes-limit")
            ),
        )
        self.pretence = Pretence(self)
        self.interval_s = 1.0
        self._ended = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []
        self._comm: Comm | None = None
        self._outbox: list[dict[str, Any]] = []

    def __await__(self) -> Generator[Any, None, HollowWorker]:
        return self._start().__await__()

    @property
    def address(self) -> str:
        """Where it can be asked for data; all workers of a site listen there for themselves."""
        return str(self.state.address)

    @property
    def active_threads(self) -> dict[int, Any]:
        """Tasks that are running, as of any worker."""
        return dict(enumerate(self.pretence.timers))

    @property
    def scheduler(self) -> Any:
        """A line to it, as any worker has."""
        return self.desk.questions

    async def finished(self) -> None:
        """Until it has left."""
        await self._ended.wait()

    async def _start(self) -> HollowWorker:
        async with self.desk.doorway:
            self.state.address = await self.desk.open_address(self)
            comm = await self._register()
        self._comm = comm
        self.status = Status.running
        self._tasks = [asyncio.ensure_future(each) for each in (self._listen(comm), self._beat())]
        for task in self._tasks:
            task.add_done_callback(self._heed)
        return self

    def _heed(self, task: asyncio.Task[Any]) -> None:
        """Nobody waits for it, so that its error would go unheard, and the worker seem well."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("hollow worker %s leaves: %r", self.name, error, exc_info=error)
            self._leave("its own error")

    async def _register(self) -> Comm:
        comm: Comm = await connect(
            self.desk.scheduler_address, deserialize=False, **self.desk.worker_args
        )
        comm.allow_offload = False  # small messages: their size need not be found out
        await comm.write(introduction(self), serializers=["msgpack"])
        answer = await comm.read(deserializers=["msgpack"])
        if answer["status"] != "OK":
            raise RuntimeError(f"the scheduler refuses {self.name}: {answer}")
        self.interval_s = answer["heartbeat-interval"]
        return comm

    async def _beat(self) -> None:
        """Heartbeats, as often as the scheduler wants them."""
        while True:
            await asyncio.sleep(self.interval_s)
            try:
                answer = await self.desk.scheduler.heartbeat_worker(
                    address=self.address,
                    now=time(),
                    metrics=metrics(self),
                    executing=self.pretence.executing(),
                    extensions={},
                )
            except OSError:
                continue  # the stream tells when the scheduler is gone
            if answer["status"] == "missing":
                return self._leave("worker-heartbeat-missing")
            self.interval_s = answer["heartbeat-interval"]

    async def _listen(self, comm: Comm) -> None:
        """Do as the scheduler says until it says no more."""
        try:
            while self.status is not Status.closed:
                for message in await comm.read():
                    self._hear(dict(message))
        except OSError:
            pass
        finally:
            self._leave("the scheduler hung up")  # unless it was told to

    def _hear(self, message: dict[str, Any]) -> None:
        op = message.pop("op")
        if op in STIMULI:
            self.handle(STIMULI[op](**message))
            if op == "free-keys":
                self.pretence.end_cancelled(message["keys"])
        elif op == "worker-status-change":
            self.change(Status[message["status"]], message["stimulus_id"])
        elif op == "close":
            self._leave(message.get("reason", ""))
        elif op == "shuffle-fail":
            self.pretence.shuffles.forget(message["shuffle_id"], message["run_id"])
        else:
            self.desk.wonder(op)

    def handle(self, event: StateMachineEvent) -> None:
        """Let the state machine decide, and pretend to do what it says."""
        if self.status is Status.closed:
            return  # a transfer that was under way
        for instruction in self.state.handle_stimulus(event):
            if isinstance(instruction, machine.SendMessageToScheduler):
                self.send(instruction.to_dict())
            elif isinstance(instruction, machine.Execute):
                self.pretence.execute(instruction.key)
            elif isinstance(instruction, machine.GatherDep):
                self.pretence.gather(instruction)
            else:
                self.desk.wonder(type(instruction).__name__)

    def send(self, message: dict[str, Any]) -> None:
        """To the scheduler, with what else there is to say within two milliseconds."""
        if not self._outbox:
            self.desk.post(self)
        self._outbox.append(message)

    async def flush(self) -> None:
        """Send what there is to say, in one message as every worker does."""
        messages, self._outbox = self._outbox, []
        if self._comm is not None and messages:
            try:
                await self._comm.write(messages, serializers=["msgpack", "pickle"])
            except OSError:
                pass  # the scheduler is gone; who listens to it hears that

    def change(self, status: Status, stimulus_id: str) -> None:
        """Pause, run again, or prepare to retire; the scheduler is told."""
        was, self.status = self.status, status
        self.send({"op": "worker-status-change", "status": status.name, "stimulus_id": stimulus_id})
        if status is Status.running and was is not status:
            self.handle(machine.UnpauseEvent(stimulus_id=stimulus_id))
        elif was is Status.running and status is not was:
            self.handle(machine.PauseEvent(stimulus_id=stimulus_id))

    def pause(self) -> None:
        """As a worker does that is short of memory."""
        self.change(Status.paused, f"worker-pause-{time()}")

    def resume(self) -> None:
        """As a worker does that has memory again."""
        self.change(Status.running, f"worker-resume-{time()}")

    async def close(self) -> None:
        """Leave without a word, as a process that ends."""
        self._leave("closed")

    def _leave(self, reason: str) -> None:
        if self.status is Status.closed:
            return
        was_running = self.status in (Status.running, Status.paused)
        self.is_wanted_back = was_running and reason in DROPPED
        self.status = Status.closed
        self.pretence.end()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        comm, self._comm = self._comm, None
        if comm is not None:
            comm.abort()
        if hasattr(self.state, "address"):
            self.desk.close_address(self.address)
        self._ended.set()
