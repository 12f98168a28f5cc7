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


def window_facts(dask_scheduler: Any = None) -> dict[str, Any]:
    """Counters whose differences describe a segment."""
    prefixes = dask_scheduler.task_prefixes.values()
    return {
        "time": time.time(),
        "cpu": time.process_time(),
        "tasks": sum(p.state_counts["memory"] + p.state_counts["erred"] for p in prefixes),
        "transitions": dask_scheduler.transition_counter,
    }


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


async def wait_until_idle(timeout: float, dask_scheduler: Any = None) -> int:
    """Wait until the scheduler knows no task; how many it still knows at the deadline."""
    deadline = time.monotonic() + timeout
    while dask_scheduler.tasks and time.monotonic() < deadline:
        await asyncio.sleep(0.002)
    return len(dask_scheduler.tasks)


async def wait_until_worker_idle(timeout: float, dask_worker: Any = None) -> int:
    """Wait until no thread of a worker runs a task, cancelled ones included."""
    deadline = time.monotonic() + timeout
    while (running := len(dask_worker.active_threads)) and time.monotonic() < deadline:
        await asyncio.sleep(0.002)
    return running
