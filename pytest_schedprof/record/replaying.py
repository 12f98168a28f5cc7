"""Asks a cluster for the work that was recorded on another one."""

from __future__ import annotations

import asyncio
import os
import warnings
from typing import TYPE_CHECKING, Any

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.formats.workload_files import read_files
from pytest_schedprof.model.workforce import workforce_of
from pytest_schedprof.model.workload import Workload
from pytest_schedprof.record.acting import ActingClient, Play
from pytest_schedprof.record.following import Script, scripts_of
from pytest_schedprof.record.staging import Stage

if TYPE_CHECKING:
    from distributed import Client


def replay(
    client: Client,
    path: str | os.PathLike[str] | None = None,
    *,
    speed: float = 1.0,
    until: float | None = None,
    only: str = "*",
) -> int:
    """Do what the recorded clients did, and wait for what they waited for.

    Durations and sizes are those of the cluster: simulated and virtual ones take them from the
    file if their option `workload` names it. There workers join and leave as they did, too.

    Args:
        client: does what the first of the recorded clients did; others are made.
        path: file of `schedprof record`, or a pattern for the files of one recording; by default
            the workload that the test's marker names.
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
    workload = read_files(os.fspath(path))
    end = float("inf") if until is None else until
    done: int = client.sync(_replay, client, workload, speed, end, only)
    return done


async def _replay(client: Client, workload: Workload, speed: float, until: float, only: str) -> int:
    stage = Stage(client, workforce_of(workload))
    await stage.look()
    play = Play(workload, speed, until, only, stage.where)
    staging = asyncio.ensure_future(stage.act(play))
    try:
        await _act_all(client, play, scripts_of(play.workload))
    finally:
        staging.cancel()
        await asyncio.gather(staging, return_exceptions=True)
    await stage.restore()
    return len(play.keys)


async def _act_all(client: Client, play: Play, scripts: dict[int, Script]) -> None:
    """Let each client act; if one fails, the others end too."""
    acting = [
        asyncio.ensure_future(
            ActingClient(play, client, each).act() if first else _as_another(client, play, each)
        )
        for first, each in zip([True] + [False] * len(scripts), scripts.values(), strict=False)
    ]
    try:
        await asyncio.gather(*acting)
    finally:
        for each in acting:
            each.cancel()
        await asyncio.gather(*acting, return_exceptions=True)


async def _as_another(client: Client, play: Play, script: Script) -> None:
    """Act as a client of its own, which connects and leaves as the recorded one did."""
    from distributed import Client
    from distributed.versions import VersionMismatchWarning

    await play.until_time(script.actions[0].event.time / play.speed)
    if script.actions[0].event.time > play.until:
        return
    scheduler: Any = client.scheduler
    with warnings.catch_warnings():  # of these the first client has warned
        warnings.simplefilter("ignore", VersionMismatchWarning)
        another: Any = await Client(
            scheduler.address, security=client.security, asynchronous=True, set_as_default=False
        )
    async with another:
        await ActingClient(play, another, script).act()
