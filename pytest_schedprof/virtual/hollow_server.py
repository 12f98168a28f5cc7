"""The server that answers requests to all hollow workers of one process."""

from __future__ import annotations

import asyncio
import logging
import pickle
import sys
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from dask.sizeof import sizeof
from distributed import profile
from distributed import worker_state_machine as machine
from distributed.comm.core import Comm, CommClosedError, Listener, listen
from distributed.core import Server, Status, rpc
from distributed.metrics import time
from distributed.protocol.serialize import to_serialize
from distributed.worker import get_data_from_worker, run

from pytest_schedprof.virtual.behaviour import Behaviour
from pytest_schedprof.virtual.executor import KINDS_THAT_COMPUTE
from pytest_schedprof.virtual.hollow_worker import HollowWorker, NodeSlot, versions

if TYPE_CHECKING:
    from distributed.security import Security

FIND_MISSING_S = 1.0

BATCH_S = 0.002
"""Interval in which messages are sent together, as in the `BatchedSend` of a real worker."""

logger = logging.getLogger(__name__)

CONNECTIONS_AT_ONCE = 50
"""Number of connections that are opened at once: a scheduler's backlog is limited."""


class WorkerServer(Server):
    """One server for all hollow workers of a process; each worker has an address of its own."""

    def __init__(
        self, scheduler_address: str, behaviour: Behaviour, security: Security, block: int
    ) -> None:
        self.scheduler_address = scheduler_address
        self.behaviour = behaviour
        self.connection_slots = asyncio.Semaphore(CONNECTIONS_AT_ONCE)
        self.hollow: dict[str, HollowWorker] = {}
        self.lacking: dict[str, HollowWorker] = {}
        """Workers that miss dependencies: to look at all workers every second would take longer."""
        self.left: set[str] = set()
        """Addresses of workers that have left."""
        self.guests: list[asyncio.Future[None]] = []
        """End when the workers that joined later have left."""
        self._block = block
        self._listeners: dict[str, tuple[int, Listener]] = {}
        self._free: list[int] = []
        self._warned_about: set[str] = set()
        self._to_send: list[HollowWorker] = []
        self._sending: asyncio.Task[None] | None = None
        handlers = {
            "gather": self.gather,
            "get_data": self.get_data,
            "update_data": self.update_data,
            "free_keys": self.free_keys,
            "run": self.run_function,
            "terminate": self.terminate,
            "versions": lambda **ignored: versions(),
            "keys": lambda comm: list(self._worker_of(comm).state.data),
            "call_stack": lambda **ignored: {},  # no task really runs
            "profile": lambda **ignored: profile.create(),
            "get_logs": lambda **ignored: [],  # hollow workers keep no logs
            "get_story": lambda **ignored: [],
            "plugin-add": self.add_plugin,
            "plugin-remove": self.accept,
            "upload_file": self.accept,
            "shuffle_inputs_done": lambda **ignored: None,  # hollow workers send no shuffle data
        }
        self.worker_args = security.get_connection_args("worker")
        super().__init__(  # type: ignore[no-untyped-call]
            handlers=handlers, deserialize=False, connection_args=self.worker_args
        )
        self._listen_args = security.get_listen_args("worker")

    async def start_unsafe(self) -> WorkerServer:
        """Start what all workers share; each worker opens its own address later."""
        await self.rpc.start()  # else no connection of its own can be opened
        self.scheduler = self.rpc(self.scheduler_address)
        self._missing = asyncio.ensure_future(self._find_missing())
        return self

    @cached_property
    def scheduler_rpc(self) -> Any:
        """RPC that deserialises the scheduler's replies; the server's own RPCs do not."""
        return rpc(self.scheduler_address, connection_args=self.worker_args)

    async def invite(self, host: HollowWorker, name: str, nthreads: int) -> None:
        """Let another worker join this process."""
        slot = NodeSlot(partial(type(host), self, name=name, nthreads=nthreads))
        await slot.node
        self.guests.append(asyncio.ensure_future(slot.until_left()))

    async def open_address(self, worker: HollowWorker) -> str:
        """Open an address on the loopback interface, for this worker only."""
        number = self._free.pop() if self._free else len(self._listeners)
        # All of 127/8 is this machine on Linux; elsewhere a port tells workers apart.
        linux = sys.platform == "linux"
        host = f"127.{self._block}.{number // 250}.{number % 250 + 1}" if linux else "127.0.0.1"
        protocol = self.scheduler_address.partition("://")[0]
        address, arguments = f"{protocol}://{host}:0", self._listen_args
        listener = await listen(address, self.handle_comm, deserialize=False, **arguments)
        address = str(listener.contact_address)
        self._listeners[address] = number, listener
        self.left.discard(address)
        self.hollow[address] = worker
        return address

    def close_address(self, address: str) -> None:
        """Stop listening and recycle the address."""
        if self.hollow.pop(address, None) is not None:
            number, listener = self._listeners.pop(address)
            listener.stop()
            self._free.append(number)
            self.left.add(address)

    async def _find_missing(self) -> None:
        """Ask every second who holds missing dependencies, as real workers do."""
        while True:
            await asyncio.sleep(FIND_MISSING_S)
            lacking, self.lacking = self.lacking, {}
            for worker in lacking.values():
                if worker.state.missing_dep_flight:
                    worker.handle(machine.FindMissingEvent(stimulus_id=f"find-missing-{time()}"))

    def send_soon(self, worker: HollowWorker) -> None:
        """Flush a worker's messages within two milliseconds.

        All workers share one timer: thousands of timers would take most of the process's time.
        """
        self._to_send.append(worker)
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._flush_soon())

    async def _flush_soon(self) -> None:
        await asyncio.sleep(BATCH_S)
        workers, self._to_send, self._sending = self._to_send, [], None
        for worker in workers:
            await worker.flush()

    def warn_once_unknown(self, operation: str) -> None:
        """Warn once about a message or instruction that hollow workers do not support."""
        if operation not in self._warned_about:
            self._warned_about.add(operation)
            logger.warning("hollow workers know nothing of %r", operation)

    def _worker_of(self, comm: Comm) -> HollowWorker:
        worker = self.hollow.get(comm.local_address)
        if worker is None:
            raise CommClosedError(f"{comm.local_address} has left")
        return worker

    async def get_data(
        self, comm: Comm, keys: list[Any], who: Any = None, **ignored: Any
    ) -> Literal[Status.dont_reply]:
        """Send placeholders for computed results, and scattered data as it was received."""
        state = self._worker_of(comm).state
        held = {**state.actors, **state.data} if state.actors else state.data
        data = {key: to_serialize(held[key]) for key in keys if key in held}
        await comm.write({"status": "OK", "data": data})
        await comm.read()
        return Status.dont_reply

    def update_data(self, comm: Comm, data: dict[Any, Any], **ignored: Any) -> dict[str, Any]:
        """Store scattered data in serialised form."""
        stimulus_id = f"update-data-{time()}"
        self._worker_of(comm).handle(machine.UpdateDataEvent(data=data, stimulus_id=stimulus_id))
        return {"nbytes": {key: sizeof(value) for key, value in data.items()}, "status": "OK"}

    async def gather(self, comm: Comm, who_has: dict[Any, list[str]]) -> dict[str, Any]:
        """Copy results from other workers, as for replication."""
        worker = self._worker_of(comm)
        lacking = [key for key in who_has if key not in worker.state.data]
        copies = await asyncio.gather(*(self._fetch(worker, who_has[key], key) for key in lacking))
        data = {key: copy for key, copy in zip(lacking, copies, strict=True) if copy is not None}
        if data:
            self.update_data(comm, data)
        failed = [key for key in lacking if key not in data]
        return {"status": "partial-fail", "keys": failed} if failed else {"status": "OK"}

    async def _fetch(self, worker: HollowWorker, holders: list[str], key: Any) -> Any:
        """Return a result that is copied to a worker, or None if nobody has it."""
        for address in holders:
            holder = self.hollow.get(address)
            value = holder.state.data.get(key) if holder else None
            if holder is None:
                with suppress(OSError):
                    answer: Any = await get_data_from_worker(self.rpc, keys=[key], worker=address)
                    value = answer["data"].get(key)
            if value is not None:
                return value
        return None

    def free_keys(self, comm: Comm, keys: list[Any], stimulus_id: str) -> None:
        """RPC variant of the free-keys message."""
        self._worker_of(comm).handle(machine.FreeKeysEvent(keys=keys, stimulus_id=stimulus_id))

    async def run_function(self, comm: Comm, **message: Any) -> Any:
        """Run a function of `Client.run`, with the hollow worker as its `dask_worker`."""
        return await run(self._worker_of(comm), comm, **message)

    def terminate(self, comm: Comm, **ignored: Any) -> str:
        """Let the worker leave, after the answer."""
        worker = self._worker_of(comm)
        asyncio.get_running_loop().call_soon(worker._leave, "terminated")
        return "OK"

    def add_plugin(self, comm: Comm, name: str, **ignored: Any) -> dict[str, str]:
        """Accept a plugin, or a file, and warn the clients that it does nothing."""
        if name not in self._warned_about:
            self._warned_about.add(name)
            text = (
                f"schedprof: the worker plugin or file {name!r} does nothing: workers of clusters "
                f"'simulated' and 'virtual' run no code. {KINDS_THAT_COMPUTE}"
            )
            self._worker_of(comm).send(
                {"op": "log-event", "topic": "warn", "msg": {"message": pickle.dumps(text)}}
            )
        return {"status": "OK"}

    def accept(self, **ignored: Any) -> dict[str, str]:
        """Accept and ignore what only real computation needs."""
        return {"status": "OK"}
