"""Where the workers of one process are asked for data, and what they have in common."""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from dask.sizeof import sizeof
from distributed import profile
from distributed import worker_state_machine as machine
from distributed.comm.core import Comm, Listener, listen
from distributed.core import Server, Status, rpc
from distributed.metrics import time
from distributed.protocol.serialize import to_serialize
from distributed.worker import get_data_from_worker, run

from pytest_schedprof.simulation.behaviour import Behaviour
from pytest_schedprof.simulation.introduction import versions
from pytest_schedprof.simulation.worker import HollowWorker

if TYPE_CHECKING:
    from distributed.security import Security

FIND_MISSING_S = 1.0

BATCH_S = 0.002
"""As `BatchedSend` of a worker has it."""

logger = logging.getLogger(__name__)

AT_A_TIME = 50
"""A scheduler takes only so many connections that have not been accepted yet."""


class Desk(Server):
    """One server for all hollow workers of a process: each has an address of its own."""

    def __init__(
        self, scheduler_address: str, behaviour: Behaviour, security: Security, block: int
    ) -> None:
        self.scheduler_address = scheduler_address
        self.behaviour = behaviour
        self.doorway = asyncio.Semaphore(AT_A_TIME)
        self.hollow: dict[str, HollowWorker] = {}
        self._block = block
        self._listeners: dict[str, tuple[int, Listener]] = {}
        self._free: list[int] = []
        self._left: set[str] = set()
        self._wondered: set[str] = set()
        self._to_send: list[HollowWorker] = []
        self._sending: asyncio.Task[None] | None = None
        handlers = {
            "gather": self.gather,
            "get_data": self.get_data,
            "update_data": self.update_data,
            "free_keys": self.free_keys,
            "run": self.run_function,
            "terminate": self.terminate,
            "versions": self.tell_versions,
            "keys": self.tell_keys,
            "call_stack": self.nothing,
            "profile": self.tell_profile,
            "get_logs": self.no_lines,
            "get_story": self.no_lines,
            "plugin-add": self.accept,
            "plugin-remove": self.accept,
            "upload_file": self.accept,
            "shuffle_inputs_done": self.inputs_done,
        }
        self.worker_args = security.get_connection_args("worker")
        super().__init__(  # type: ignore[no-untyped-call]
            handlers=handlers, deserialize=False, connection_args=self.worker_args
        )
        self._listen_args = security.get_listen_args("worker")

    async def start_unsafe(self) -> Desk:
        """Each worker listens for itself; what they all need begins here."""
        await self.rpc.start()  # else no line of its own can be opened
        self.scheduler = self.rpc(self.scheduler_address)
        self._missing = asyncio.ensure_future(self._find_missing())
        return self

    @cached_property
    def questions(self) -> Any:
        """A line to the scheduler whose answers are read, which those to workers' are not."""
        return rpc(self.scheduler_address, connection_args=self.worker_args)

    async def open_address(self, worker: HollowWorker) -> str:
        """An address that is the worker's alone, on this machine alone."""
        number = self._free.pop() if self._free else len(self._listeners)
        # All of 127/8 is this machine on Linux; elsewhere a port tells workers apart.
        linux = sys.platform == "linux"
        host = f"127.{self._block}.{number // 250}.{number % 250 + 1}" if linux else "127.0.0.1"
        protocol = self.scheduler_address.partition("://")[0]
        place, arguments = f"{protocol}://{host}:0", self._listen_args
        listener = await listen(place, self.handle_comm, deserialize=False, **arguments)
        address = str(listener.contact_address)
        self._listeners[address] = number, listener
        self._left.discard(address)
        self.hollow[address] = worker
        return address

    def close_address(self, address: str) -> None:
        """Nobody is there any longer."""
        if self.hollow.pop(address, None) is not None:
            number, listener = self._listeners.pop(address)
            listener.stop()
            self._free.append(number)
            self._left.add(address)

    def has_left(self, address: str) -> bool:
        """Whether a worker of this process was there and is no more."""
        return address in self._left

    async def _find_missing(self) -> None:
        """As each worker does every second: ask again who has what nobody seems to have."""
        while True:
            await asyncio.sleep(FIND_MISSING_S)
            for worker in list(self.hollow.values()):
                if worker.state.missing_dep_flight:
                    worker.handle(machine.FindMissingEvent(stimulus_id=f"find-missing-{time()}"))

    def post(self, worker: HollowWorker) -> None:
        """Messages of a worker go out together, within two milliseconds, as those of any.

        One timer for all of them, for thousands of them would be what this process does most.
        """
        self._to_send.append(worker)
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send_soon())

    async def _send_soon(self) -> None:
        await asyncio.sleep(BATCH_S)
        workers, self._to_send, self._sending = self._to_send, [], None
        for worker in workers:
            await worker.flush()

    def wonder(self, what: str) -> None:
        """A protocol may have learnt something that hollow workers do not know."""
        if what not in self._wondered:
            self._wondered.add(what)
            logger.warning("hollow workers know nothing of %r", what)

    def _asked(self, comm: Comm) -> HollowWorker:
        return self.hollow[comm.local_address]

    async def get_data(
        self, comm: Comm, keys: list[Any], who: Any = None, **ignored: Any
    ) -> Literal[Status.dont_reply]:
        """Placeholders for what was computed; what was scattered, as it came."""
        data = self._asked(comm).state.data
        found = {key: to_serialize(data[key]) for key in keys if key in data}
        await comm.write({"status": "OK", "data": found})
        await comm.read()
        return Status.dont_reply

    def update_data(self, comm: Comm, data: dict[Any, Any], **ignored: Any) -> dict[str, Any]:
        """Hold what was scattered as it came, without a look at it."""
        stimulus_id = f"update-data-{time()}"
        self._asked(comm).handle(machine.UpdateDataEvent(data=data, stimulus_id=stimulus_id))
        return {"nbytes": {key: sizeof(value) for key, value in data.items()}, "status": "OK"}

    async def gather(self, comm: Comm, who_has: dict[Any, list[str]]) -> dict[str, Any]:
        """Take over what others have, as when data is replicated."""
        worker, data, failed = self._asked(comm), {}, []
        for key in who_has.keys() - worker.state.data.keys():
            try:
                data[key] = await self._fetch(who_has[key], key)
            except OSError:
                failed.append(key)
        if data:
            self.update_data(comm, data)
        return {"status": "partial-fail", "keys": failed} if failed else {"status": "OK"}

    def look(self, address: str, key: Any) -> Any:
        """What a worker of this process has under a key; None if there is none such."""
        worker = self.hollow.get(address)
        return worker and worker.state.data.get(key)

    async def _fetch(self, holders: list[str], key: Any) -> Any:
        for address in holders:
            found = self.look(address, key)
            if found is None and address not in self.hollow:
                found = await self._ask(address, key)
            if found is not None:
                return found
        raise OSError(f"nobody has {key!r}")

    async def _ask(self, address: str, key: Any) -> Any:
        try:
            answer: Any = await get_data_from_worker(self.rpc, keys=[key], worker=address)
        except OSError:
            return None
        return answer["data"].get(key)

    def free_keys(self, comm: Comm, keys: list[Any], stimulus_id: str) -> None:
        """As over the stream."""
        self._asked(comm).handle(machine.FreeKeysEvent(keys=keys, stimulus_id=stimulus_id))

    async def run_function(self, comm: Comm, **message: Any) -> Any:
        """`Client.run` gives a function the hollow worker for its `dask_worker`."""
        return await run(self._asked(comm), comm, **message)

    def terminate(self, comm: Comm, **ignored: Any) -> str:
        """Leave."""
        worker = self._asked(comm)
        asyncio.get_running_loop().call_soon(worker._leave, "terminated")
        return "OK"

    def tell_versions(self, **ignored: Any) -> dict[str, Any]:
        """Of the packages here."""
        return versions()

    def tell_keys(self, comm: Comm) -> list[Any]:
        """What the worker has."""
        return list(self._asked(comm).state.data)

    def tell_profile(self, **ignored: Any) -> dict[str, Any]:
        """One without a sample: nothing runs."""
        return profile.create()

    def nothing(self, **ignored: Any) -> dict[str, Any]:
        """Nothing runs, so there is nothing to see."""
        return {}

    def no_lines(self, **ignored: Any) -> list[Any]:
        """Nothing is logged."""
        return []

    def inputs_done(self, **ignored: Any) -> None:
        """What was not sent has arrived."""

    def accept(self, **ignored: Any) -> dict[str, str]:
        """Plugins and files are for those who compute."""
        return {"status": "OK"}
