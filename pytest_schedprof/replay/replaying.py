"""Repeats on a cluster the work that was recorded on another one."""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_schedprof.agent.decisions import WORLD
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.formats.workload import read_file
from pytest_schedprof.model.workload import WorkerEvent, Workforce, Workload, workforce_of
from pytest_schedprof.replay.acting import ActingClient, Play
from pytest_schedprof.replay.following import Script, scripts_of

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("distributed.schedprof")  # dask shows what is below `distributed`

POLL_S = 0.01


def present(dask_scheduler: Any = None) -> list[tuple[str, str, int]]:
    """Return the address, the name and the threads of each worker; runs on the scheduler."""
    workers = dask_scheduler.workers.values()
    return [(worker.address, str(worker.name), worker.nthreads) for worker in workers]


def arrive_in_virtual_time(arriving: Sequence[tuple[str, int]], dask_scheduler: Any = None) -> bool:
    """Let workers join a virtual cluster; return whether it is one. Runs on the scheduler."""
    world = dask_scheduler.extensions.get(WORLD)
    for name, threads in arriving if world is not None else ():
        world.workers.arrive(name, threads)
    return world is not None


def leave_in_virtual_time(name: str, dask_scheduler: Any = None) -> bool:
    """Let a worker of a virtual cluster leave; return whether it is one."""
    world = dask_scheduler.extensions.get(WORLD)
    if world is not None:
        world.workers.act("kill", name, float("inf"))
    return world is not None


async def arrive(arriving: Sequence[tuple[str, int]], dask_worker: Any = None) -> bool:
    """Let hollow workers join the process of this one; return whether this is one."""
    invite = getattr(getattr(dask_worker, "server", None), "invite", None)
    if invite is None:
        return False
    await asyncio.gather(*(invite(dask_worker, name, threads) for name, threads in arriving))
    return True


def leave(dask_worker: Any = None) -> bool:
    """Let this worker leave after its answer if it is hollow; return whether it is."""
    end = getattr(dask_worker, "_leave", None)
    if end is not None:
        asyncio.get_running_loop().call_soon(end, "left in the replay")
    return end is not None


class Stage:
    """The workers that replace the recorded ones."""

    def __init__(self, client: Client, workforce: Workforce) -> None:
        self._client: Any = client
        self._workforce = workforce
        self.names: dict[int, str] = {}
        """The cluster's workers by the numbers of those that they replace."""
        self._first: dict[str, int] = {}
        """Threads of the workers that were there before the replay, by name."""
        self._addresses: dict[str, str] = {}
        """Addresses of these workers, by name."""
        self._next = 0
        self._can_change = True
        self._retiring: list[asyncio.Future[Any]] = []

    async def look(self) -> None:
        """Let the cluster's workers replace those that were recorded first."""
        workers = sorted(await self._present(), key=lambda worker: _in_order(worker[1]))
        self._first = {name: threads for _, name, threads in workers}
        self._addresses = {name: address for address, name, _ in workers}
        numbers = (event.worker for event in self._workforce.first)
        self.names.update(zip(numbers, self._first, strict=False))
        self._next = 1 + max((int(name) for name in self._first if name.isdigit()), default=-1)

    def where(self, worker: int) -> str:
        """Return the address or name of the worker that replaces a recorded one.

        If the cluster has too few workers, it is the replacement of another one.
        """
        name, addresses = self.names.get(worker), list(self._addresses.values())
        if name is not None:
            return self._addresses.get(name, name)
        return addresses[worker % len(addresses)] if addresses else "nowhere"

    async def act(self, play: Play) -> None:
        """Let workers join and leave at their times."""
        for events in _together(self._workforce.later):
            if events[0].time > play.until:
                return
            await play.until_time(events[0].time / play.speed)
            if not self._can_change:
                return
            await self._change(events)

    async def _change(self, events: Sequence[WorkerEvent]) -> None:
        if events[0].has_joined:
            await self._arrive([(self._new_name(event.worker), event.threads) for event in events])
            return
        for event in events:
            name = self.names.pop(event.worker, None)
            if name is not None:
                await self._leave(name, is_retired=event.is_retired)

    def _new_name(self, worker: int) -> str:
        name = self.names[worker] = str(self._next)
        self._next += 1
        return name

    async def _arrive(self, arriving: Sequence[tuple[str, int]]) -> None:
        """Let workers join, in virtual time or as hollow ones."""
        if await self._client.run_on_scheduler(arrive_in_virtual_time, arriving):
            return
        hosts = [address for address, _, _ in await self._present()][:1]
        answers = await self._client.run(arrive, arriving, workers=hosts) if hosts else {}
        self._say_if_not(any(answers.values()))

    async def _leave(self, name: str, *, is_retired: bool) -> None:
        if is_retired:
            retiring = self._client.retire_workers(names=[name], close_workers=True)
            self._retiring.append(asyncio.ensure_future(retiring))
        elif not await self._client.run_on_scheduler(leave_in_virtual_time, name):
            addresses = [address for address, own, _ in await self._present() if own == name]
            answers = await self._client.run(leave, workers=addresses) if addresses else {}
            self._say_if_not(any(answers.values()))

    def _say_if_not(self, has_changed: bool) -> None:
        if not has_changed and self._can_change:
            self._can_change = False
            logger.warning(
                "schedprof: workers join and leave in the recorded workload; in a replay they can "
                "on simulated and virtual clusters only"
            )

    async def restore(self) -> None:
        """Give the cluster the workers that it had, for another round."""
        if not (self._workforce.later and self._can_change):
            return
        await asyncio.gather(*self._retiring, return_exceptions=True)
        self._retiring.clear()
        names = await self._names()
        if missing := [worker for worker in self._first.items() if worker[0] not in names]:
            await self._arrive(missing)
        if others := sorted(names - self._first.keys()):
            await self._client.retire_workers(names=others, close_workers=True)
        while self._can_change and await self._names() != self._first.keys():
            await asyncio.sleep(POLL_S)

    async def _names(self) -> set[str]:
        return {name for _, name, _ in await self._present()}

    async def _present(self) -> list[tuple[str, str, int]]:
        workers: list[tuple[str, str, int]] = await self._client.run_on_scheduler(present)
        return workers


TOGETHER_S = 0.01
"""Workers that join within this time join together, like those of one job."""


def _together(events: Sequence[WorkerEvent]) -> list[list[WorkerEvent]]:
    """Return events in groups of the same kind and about the same time."""
    groups: list[list[WorkerEvent]] = []
    for event in events:
        first = groups[-1][0] if groups else None
        near = first is not None and event.time - first.time <= TOGETHER_S
        if first is not None and near and first.has_joined == event.has_joined:
            groups[-1].append(event)
        else:
            groups.append([event])
    return groups


def _in_order(name: str) -> tuple[bool, int, str]:
    """Return the key of a name in sorting: numbers by their size, before other names."""
    return not name.isdigit(), int(name) if name.isdigit() else 0, name


def replay(
    client: Client,
    path: str | os.PathLike[str] | None = None,
    *,
    speed: float = 1.0,
    until: float | None = None,
    only: str = "*",
) -> int:
    """Repeat what the recorded clients did, and wait for the results for which they waited.

    Durations and sizes are those of the cluster: simulated and virtual ones take them from the
    file if their option `workload` names it. There workers also join and leave as they did.

    Args:
        client: repeats what the first of the recorded clients did; others are made.
        path: file of `schedprof record`; by default the workload that the test's marker names.
        speed: how much faster than in reality graphs arrive.
        until: seconds of the file after which nothing more is submitted.
        only: pattern of prefixes; other tasks are left out.

    Returns:
        how many tasks were submitted; an asynchronous client returns a coroutine.
    """
    if not speed > 0:
        raise SettingsError(f"schedprof: speed must be a positive number, got {speed!r}")
    path = path or getattr(client, "schedprof_workload", None)
    if path is None:
        raise SettingsError(
            "schedprof: replay needs the path of a file, or a test whose marker has workload="
        )
    workload = read_file(os.fspath(path))
    end = float("inf") if until is None else until
    done: int = client.sync(replay_workload, client, workload, speed, end, only)
    return done


async def replay_workload(
    client: Client,
    workload: Workload,
    speed: float,
    until: float = float("inf"),
    only: str = "*",
) -> int:
    """Replay what has been read of a file."""
    stage = Stage(client, workforce_of(workload))
    await stage.look()
    play = Play(workload, speed, until, only, stage.where)
    staging = asyncio.ensure_future(stage.act(play))
    try:
        await _act_all(client, play, scripts_of(play.workload))
    finally:
        staging.cancel()
        (end,) = await asyncio.gather(staging, return_exceptions=True)
    if isinstance(end, Exception):  # then workers did not join or leave as they had
        raise end
    await stage.restore()
    return len(play.keys)


async def _act_all(client: Client, play: Play, scripts: dict[int, Script]) -> None:
    """Let each client act; if one fails, the others end too."""
    acting = [
        asyncio.ensure_future(
            _as_another(client, play, script)
            if number
            else ActingClient(play, client, script).act()
        )
        for number, script in enumerate(scripts.values())
    ]
    try:
        await asyncio.gather(*acting)
    finally:
        for task in acting:
            task.cancel()
        await asyncio.gather(*acting, return_exceptions=True)


async def _as_another(client: Client, play: Play, script: Script) -> None:
    """Act as another client, which connects and leaves as the recorded one did."""
    from distributed import Client
    from distributed.versions import VersionMismatchWarning

    await play.until_time(script.actions[0].event.time / play.speed)
    if script.actions[0].event.time > play.until:
        return
    scheduler: Any = client.scheduler
    with warnings.catch_warnings():  # the first client has warned
        warnings.simplefilter("ignore", VersionMismatchWarning)
        another: Any = await Client(
            scheduler.address, security=client.security, asynchronous=True, set_as_default=False
        )
    async with another:
        await ActingClient(play, another, script).act()
