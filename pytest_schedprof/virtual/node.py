"""The process of a virtual cluster: the scheduler and all workers on one event loop."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import socket
import uuid
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, TextIO

from distributed import Scheduler, utils
from distributed.comm.inproc import global_manager
from distributed.scheduler import TaskGroup
from distributed.worker_state_machine import TaskState
from tornado.ioloop import IOLoop
from tornado.iostream import IOStream

from pytest_schedprof.agent.decisions import WORLD
from pytest_schedprof.virtual.arrivals import (
    expect,
    few_words,
    in_order_of_sets,
    join_all,
    leave_out_debugging,
)
from pytest_schedprof.virtual.behaviour import read_behaviour, read_trait
from pytest_schedprof.virtual.faults import Faults
from pytest_schedprof.virtual.loop import AtOnce, VirtualLoop, replace_clocks
from pytest_schedprof.virtual.server import Restarts, VirtualServer
from pytest_schedprof.virtual.turns import Turns
from pytest_schedprof.virtual.worker import VirtualWorker
from pytest_schedprof.virtual.world import World


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
    _order_sets()
    leave_out_debugging()
    made_of = _scheduler_options(spec)
    scheduler = Scheduler(**made_of)
    restarts = Restarts(scheduler, made_of)
    await scheduler
    world = World(loop, scheduler, read_trait("horizon", spec["options"]))
    scheduler.extensions[WORLD] = world
    server = await VirtualServer(scheduler, read_behaviour(spec["options"]), spec["count"], world)
    server.restarts = restarts
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


def _order_sets() -> None:
    """Let the order of a worker's sets of tasks depend on keys, not on places in memory.

    The same holds for the scheduler's sets of groups: a span visits its groups until one is not
    done, which has been 228 and 261 bytecodes in runs of the same code.
    """
    TaskState.__hash__ = lambda task: hash(task.key)  # type: ignore[method-assign, assignment]
    groups: Any = TaskGroup
    groups.__hash__ = lambda group: hash(group.name)


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
