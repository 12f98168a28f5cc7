"""The process of a virtual cluster: the scheduler and all workers on one event loop.

A part makes the start of thousands of workers cheap.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import logging
import random
import socket
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, TextIO

from distributed import Scheduler, SchedulerPlugin, utils, versions
from distributed.comm.inproc import global_manager
from distributed.worker_state_machine import StateMachineEvent, TaskState, WorkerState
from tornado.ioloop import IOLoop
from tornado.iostream import IOStream

from pytest_schedprof.agent.decisions import WORLD
from pytest_schedprof.virtual.behaviour import read_behaviour, read_trait
from pytest_schedprof.virtual.loop import AtOnce, Turns, VirtualLoop, replace_clocks
from pytest_schedprof.virtual.orders import hash_by_names, order_graphs, order_requests
from pytest_schedprof.virtual.server import VirtualServer, leave_out_readings
from pytest_schedprof.virtual.worker import VirtualWorker, name_for_scheduler
from pytest_schedprof.virtual.world import Faults, World


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in virtual time, as `asyncio.run` does in real time."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    replace_clocks(loop.time)
    try:
        loop.run_until_complete(main)
    finally:
        asyncio.set_event_loop(None)


async def serve(spec: dict[str, Any], answer: TextIO, parent_gone: asyncio.Future[None]) -> None:
    """Start scheduler and workers, report their addresses, and serve until the parent is gone."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    IOLoop.current().time = loop.time  # type: ignore[method-assign]
    utils._offload_executor = AtOnce()  # type: ignore[assignment]
    _fix_chance(int(spec["options"].get("seed", 0)))
    _name_addresses()
    hash_by_names()
    leave_out_debugging()
    scheduler = Scheduler(**_scheduler_options(spec))
    leave_out_readings(scheduler)
    order_requests(scheduler)
    await scheduler
    world = World(loop, scheduler, read_trait("horizon", spec["options"]))
    scheduler.extensions[WORLD] = world
    order_graphs(world.sent)
    server = await VirtualServer(scheduler, read_behaviour(spec["options"]), spec["count"], world)
    make = partial(VirtualWorker, server, nthreads=spec["threads"])
    await join_all([make(name=name) for name in in_order_of_sets(spec["count"])])
    options = spec["options"]
    world.workers = Faults(server, make, read_trait("faults", options), read_trait("seed", options))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with answer:
            print(json.dumps([scheduler.address, *listener.getsockname()]), file=answer)
        loop.turns = Turns(listener.accept()[0])
    _watch_writes(loop)
    loop.is_away = True  # the first turn is the test's
    await asyncio.wait([parent_gone])
    with few_words():
        await scheduler.close()


def _scheduler_options(spec: dict[str, Any]) -> dict[str, Any]:
    options = {**spec["scheduler_options"], **expect(spec["count"])}
    options["protocol"] = ["tcp", "inproc"]
    options["host"] = [options["host"], ""]
    options["port"] = [0, 0]
    return options


def _fix_chance(seed: int) -> None:
    """Draw random numbers and unique names from the seed."""
    random.seed(seed)
    source = random.Random(f"{seed}:names")
    uuid.uuid4 = lambda: uuid.UUID(int=source.getrandbits(128), version=4)


def _name_addresses() -> None:
    """Leave the number of this process out of its addresses, so that they are the same again."""
    numbers = itertools.count(1)
    manager: Any = global_manager
    manager.validate_address = lambda address: None
    manager.new_address = lambda: f"connection-{next(numbers)}"
    manager._ip = "virtual"
    manager.listeners = {}


def _watch_writes(loop: VirtualLoop) -> None:
    """Note what is sent to the test's process, which then gets the turn before time goes on."""

    def noted(before: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(before)
        def after(*args: Any, **keywords: Any) -> Any:
            loop.owes = True
            return before(*args, **keywords)

        return after

    for name in ("write_to_fd", "close_fd"):  # everything that is sent passes these
        setattr(IOStream, name, noted(getattr(IOStream, name)))


logger = logging.getLogger("distributed.scheduler")


def in_order_of_sets(count: int) -> list[str]:
    """Return the names of workers in the order in which the scheduler's sets of them will be.

    With queuing, the scheduler scans the set of idle workers for each root task. If they lie in
    memory in the order of that set, a scan of 10,000 took 92 to 106 ns a worker instead of 195 to
    310, in a loop over nothing but workers; in a cluster it has not been measured.
    """
    mask = (1 << (2 * count).bit_length()) - 1  # a set of so many has a table of that size
    names = (f"{number}" for number in range(count))
    return sorted(names, key=lambda name: hash(name_for_scheduler(name)) & mask)


async def join_all(workers: Sequence[VirtualWorker]) -> None:
    """Let all of them join.

    Afterwards garbage is collected a hundred times less often, and never among what lives now: a
    collection would visit thousands of workers, which no scheduler has in its process.
    """
    gc.disable()
    with few_words():
        for worker in workers:
            worker.join()
        while not all(worker.has_joined() for worker in workers):
            await asyncio.sleep(0)
    logger.info("%d workers have joined", len(workers))
    gc.freeze()
    gc.set_threshold(70_000, 10, 10)
    gc.enable()


@contextmanager
def few_words() -> Iterator[None]:
    """Log nothing about single workers: that took a quarter of the time to join."""
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


SAME = {"warning": "", "error": ""}
NOTHING: dict[str, Any] = {}


class Arrival(SchedulerPlugin):
    """Replaces the version check until the expected number of workers has joined."""

    name = "schedprof-arrival"

    def __init__(self, count: int) -> None:
        self.count = count
        self._joining: Scheduler | None = None
        """The scheduler from the moment when a worker joins until it asks for its own versions."""
        self._hiding: Scheduler | None = None
        """The scheduler from then on, until it compares."""
        self._compare, self._own = versions.error_message, versions.get_versions
        versions.error_message = self._same
        versions.get_versions = self._hide_others

    def _hide_others(self, *args: Any, **keywords: Any) -> Any:
        """Return the versions here; if a worker joins, hide the others from what follows."""
        if self._joining is None:
            return self._own(*args, **keywords)
        self._hiding, self._joining = self._joining, None
        vars(self._hiding.workers)["items"] = tuple
        return NOTHING

    def _same(self, *args: Any, **keywords: Any) -> dict[str, str]:
        if self._hiding is not None:
            del vars(self._hiding.workers)["items"]
            self._hiding = None
        return SAME

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Restore the check and remove this plugin once the last expected worker joins."""
        self._joining = scheduler
        if len(scheduler.workers) >= self.count:
            self._joining = None
            versions.error_message, versions.get_versions = self._compare, self._own
            scheduler.remove_plugin(name=self.name)


def expect(count: int) -> dict[str, Any]:
    """Return the keywords of a scheduler that this number of hollow workers will join."""
    return {"plugins": [Arrival(count)]} if count else {}


def leave_out_debugging() -> None:
    """Make events of state machines cheaper."""
    for kind in list(StateMachineEvent._classes.values()):
        if "to_loggable" in vars(kind):
            # Not copied, as the log is empty in hollow workers.
            kind.to_loggable = lambda event, *, handled: event  # type: ignore[method-assign, assignment]

    TaskState._instances = _NoTasks()  # type: ignore[assignment]
    find: Callable[..., Any] = vars(WorkerState)["_handle_event"].dispatcher.dispatch

    def handle(state: WorkerState, event: StateMachineEvent) -> Any:
        """Call the handler as `singledispatchmethod` does, without making a function each time."""
        return find(type(event))(state, event)

    WorkerState._handle_event = handle  # type: ignore[method-assign, assignment]


class _NoTasks:
    """Replaces the set of all tasks of the process, which only distributed's tests read."""

    def add(self, task: TaskState) -> None:
        """Do nothing."""
