"""What the scheduler knows of itself, read in one call."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
import sys
import time
from typing import Any

PACKAGES = ("dask", "distributed", "tornado", "msgpack", "cloudpickle", "py-spy", "memray")

CLEARED = "_schedprof_cleared"
"""Attribute of the scheduler that holds how many finished tasks it has forgotten."""


def window_facts(dask_scheduler: Any = None) -> dict[str, Any]:
    """Counters whose differences describe a segment; none of them ever goes down."""
    _count_through_restarts(dask_scheduler)
    return {
        "time": time.time(),
        "cpu": time.process_time(),
        "tasks": getattr(dask_scheduler, CLEARED, 0) + _finished(dask_scheduler),
        "transitions": dask_scheduler.transition_counter,
    }


def _finished(scheduler: Any) -> int:
    """Tasks that came into memory or failed since the scheduler last forgot all tasks."""
    counts = [prefix.state_counts for prefix in scheduler.task_prefixes.values()]
    return sum(count["memory"] + count["erred"] for count in counts)


def _count_through_restarts(scheduler: Any) -> None:
    """`Client.restart` makes the scheduler forget its counts: keep what they were.

    Not a plugin, whose method the scheduler would call at every transition: that would be in
    every profile.
    """
    clear = getattr(scheduler, "_clear_task_state", None)
    if clear is None or hasattr(scheduler, CLEARED):
        return

    def count_and_clear() -> None:
        setattr(scheduler, CLEARED, getattr(scheduler, CLEARED) + _finished(scheduler))
        clear()

    setattr(scheduler, CLEARED, 0)
    scheduler._clear_task_state = count_and_clear


async def settle(steady: float, timeout: float, dask_scheduler: Any = None) -> None:
    """Wait until the scheduler has made no transition for a while.

    A test ends when its client has heard enough: releases may still be on their way, and would
    be counted in one run and not in the next.
    """
    deadline = time.monotonic() + timeout
    before, since = dask_scheduler.transition_counter, time.monotonic()
    while time.monotonic() - since < steady and time.monotonic() < deadline:
        await asyncio.sleep(steady / 10)
        if dask_scheduler.transition_counter != before:
            before, since = dask_scheduler.transition_counter, time.monotonic()


def describe(dask_scheduler: Any = None) -> dict[str, Any]:
    """Identity and environment of the scheduler."""
    workers = list(dask_scheduler.workers.values())
    return {
        "pid": os.getpid(),
        "address": dask_scheduler.address,
        "workers": [worker.address for worker in workers],
        "threads": sum(worker.nthreads for worker in workers),
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "platform": platform.platform(),
        "versions": {name: _version(name) for name in PACKAGES if _version(name)},
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def surroundings(dask_scheduler: Any = None) -> dict[str, Any]:
    """What is on the scheduler now."""
    return {
        "tasks": frozenset(dask_scheduler.tasks),
        "clients": frozenset(dask_scheduler.client_comms),
        "datasets": frozenset(dask_scheduler.extensions["publish"].datasets),
        "workers": len(dask_scheduler.workers),
    }


async def wait_until_idle(
    timeout: float,
    tasks: frozenset[Any] = frozenset(),
    clients: frozenset[str] = frozenset(),
    dask_scheduler: Any = None,
) -> int:
    """Wait until the scheduler knows no task but these, and what these clients want.

    Returns how many others it still knows at the deadline.
    """
    deadline = time.monotonic() + timeout
    while True:
        begun = time.monotonic()
        left = dask_scheduler.tasks.keys() - tasks
        if left and clients:
            left -= _wanted_by(clients, dask_scheduler)
        if not left or begun > deadline:
            return len(left)
        # Where others have many tasks a look takes long: leave the scheduler time for them.
        await asyncio.sleep(max(0.002, time.monotonic() - begun))


def _wanted_by(clients: frozenset[str], scheduler: Any) -> set[Any]:
    """Keys that clients wait for, or that are needed for these."""
    keys: set[Any] = set()
    known = [scheduler.clients[name] for name in clients if name in scheduler.clients]
    found = [task for client in known for task in client.wants_what]
    while found:
        task = found.pop()
        if task.key not in keys:
            keys.add(task.key)
            found.extend(task.dependencies)
    return keys


def processing(dask_scheduler: Any = None) -> frozenset[Any]:
    """Keys that workers have been told to compute."""
    return frozenset(
        task.key for worker in dask_scheduler.workers.values() for task in worker.processing
    )


async def wait_until_worker_idle(
    timeout: float, others: frozenset[Any] = frozenset(), dask_worker: Any = None
) -> int:
    """Wait until no thread of a worker runs a task but these; cancelled ones are waited for."""
    deadline = time.monotonic() + timeout
    while running := sum(key not in others for key in dask_worker.active_threads.values()):
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(0.002)
    return running
