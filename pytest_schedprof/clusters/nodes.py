"""Run a scheduler or workers in a process of a cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TextIO

from distributed import Scheduler, Worker
from distributed.compatibility import asyncio_run
from distributed.config import get_loop_factory
from distributed.core import Status
from distributed.security import Security

from pytest_schedprof.virtual.behaviour import DROPPED
from pytest_schedprof.virtual.hollow_worker import NodeSlot


class LocalWorker(Worker):
    """A worker that notices when the scheduler removes it, as `Client.restart` does."""

    is_wanted_back = False

    async def close(self, *args: Any, **kwargs: Any) -> Any:
        """Close, and note whether the scheduler removed it in a restart.

        A retired worker is in none of these states when the scheduler removes it.
        """
        if self.status in (Status.running, Status.paused):
            self.is_wanted_back = kwargs.get("reason") in DROPPED
        return await super().close(*args, **kwargs)


def run(spec: dict[str, Any], serving: Coroutine[Any, Any, None]) -> None:
    """Run what serves the nodes, in virtual time if they are those of a virtual cluster."""
    if spec["role"] == "virtual":
        from pytest_schedprof.virtual import node

        node.run(serving)
    else:  # on the event loop that dask's configuration chooses, as dask's own programs do
        asyncio_run(serving, loop_factory=get_loop_factory())


async def serve(spec: dict[str, Any], answer: TextIO, parent_gone: asyncio.Future[None]) -> None:
    """Start nodes, report their addresses, and run until all nodes or the parent are gone."""
    if spec["role"] == "virtual":
        from pytest_schedprof.virtual import node

        return await node.serve(spec, answer, parent_gone)
    slots = [NodeSlot(make) for make in await _makers(spec)]
    await asyncio.gather(*(slot.node for slot in slots))
    with answer:
        print(json.dumps([slot.node.address for slot in slots]), file=answer)
    ends: list[asyncio.Future[Any]] = [parent_gone, asyncio.ensure_future(_until_left(slots))]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if spec.get("hollow_workers"):
        _let_go(slots[0].node)
    await asyncio.gather(*(slot.node.close() for slot in slots), return_exceptions=True)


def _let_go(scheduler: Scheduler) -> None:
    """Make the scheduler ignore that workers leave, because its cluster ends.

    It would tell all others of each worker: a million messages for a thousand workers.
    """

    async def ignored(*args: Any, **kwargs: Any) -> None:
        pass

    vars(scheduler)["remove_worker"] = ignored


async def _until_left(slots: Sequence[NodeSlot]) -> None:
    """Wait until all nodes have left, those that joined later too."""
    await asyncio.gather(*(slot.until_left() for slot in slots))
    servers = {getattr(slot.node, "server", None) for slot in slots}
    await asyncio.gather(*(guest for server in servers for guest in getattr(server, "guests", ())))


async def _makers(spec: dict[str, Any]) -> list[Callable[[], Any]]:
    security = Security(**spec["security"])
    if spec["role"] == "hollow-workers":  # which share the server of this process
        from pytest_schedprof.virtual.behaviour import read_behaviour
        from pytest_schedprof.virtual.hollow_server import WorkerServer
        from pytest_schedprof.virtual.hollow_worker import HollowWorker

        behaviour = read_behaviour(spec["options"])
        server = WorkerServer(spec["scheduler"], behaviour, security, spec["block"])
        await server
        hollow = partial(HollowWorker, server, nthreads=spec["threads"])
        return [partial(hollow, name=f"{spec['first'] + n}") for n in range(spec["count"])]
    options = {**spec["options"], "security": security}
    if spec["role"] == "scheduler":
        if spec["hollow_workers"]:
            from pytest_schedprof.virtual.node import expect

            options |= expect(spec["hollow_workers"])
        return [partial(Scheduler, **options)]
    make = partial(LocalWorker, spec["scheduler"], **options)
    return [partial(make, name=f"{number}") for number in range(spec["count"])]
