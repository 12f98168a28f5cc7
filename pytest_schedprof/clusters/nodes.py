"""Scheduler or workers as they live in a process of ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any, TextIO

from distributed import Scheduler, Worker
from distributed.core import Status
from distributed.security import Security

DROPPED = ("scheduler-remove-worker", "worker-heartbeat-missing")
"""Why a worker that was dropped closes: it is told, or it asks just before the message arrives."""


class LocalWorker(Worker):
    """One that notices when the scheduler drops it, as `Client.restart` does without nannies."""

    is_wanted_back = False

    async def close(self, *args: Any, **kwargs: Any) -> Any:
        """As any worker does; who is retired has left these states before it is dropped."""
        if self.status in (Status.running, Status.paused):
            self.is_wanted_back = kwargs.get("reason") in DROPPED
        return await super().close(*args, **kwargs)


class Place:
    """Where a node lives, and after it the one that takes its place."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.node = make()

    async def until_left(self) -> None:
        """Until the node is gone for good: what is closed stays closed, what is restarted not."""
        await self.node.finished()
        while getattr(self.node, "is_wanted_back", False):
            self.node = self._make()
            await self.node
            await self.node.finished()


async def serve(spec: dict[str, Any], answer: TextIO, parent_gone: asyncio.Future[None]) -> None:
    """Start nodes, tell their addresses, and stay until the last of them or the parent is gone."""
    places = [Place(make) for make in await _makers(spec)]
    await asyncio.gather(*(place.node for place in places))
    with answer:
        print(json.dumps([place.node.address for place in places]), file=answer)
    all_left = asyncio.gather(*(place.until_left() for place in places))
    ends: list[asyncio.Future[Any]] = [parent_gone, all_left]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.gather(*(place.node.close() for place in places), return_exceptions=True)


async def _makers(spec: dict[str, Any]) -> list[Callable[[], Any]]:
    security = Security(**spec["security"])
    if spec["role"] == "hollow-workers":
        return await _hollow_makers(spec, security)
    options = {**spec["options"], "security": security}
    if spec["role"] == "scheduler":
        return [partial(Scheduler, **options, **_expected(spec))]
    make = partial(LocalWorker, spec["scheduler"], **options)
    return [partial(make, name=f"{number}") for number in range(spec["count"])]


def _expected(spec: dict[str, Any]) -> dict[str, Any]:
    if not spec.get("hollow_workers"):
        return {}
    from pytest_schedprof.simulation.arrival import expect

    return expect(spec["hollow_workers"])


async def _hollow_makers(spec: dict[str, Any], security: Security) -> list[Callable[[], Any]]:
    """Workers that share the desk of this process."""
    from pytest_schedprof.simulation.behaviour import read_behaviour
    from pytest_schedprof.simulation.desk import Desk
    from pytest_schedprof.simulation.worker import HollowWorker

    desk = Desk(spec["scheduler"], read_behaviour(spec["options"]), security, spec["block"])
    await desk
    make = partial(HollowWorker, desk, nthreads=spec["threads"])
    return [partial(make, name=f"{spec['first'] + number}") for number in range(spec["count"])]
