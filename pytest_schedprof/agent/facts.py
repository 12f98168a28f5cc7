"""What the scheduler knows of itself, read in one call."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import dask.config

from . import others

PACKAGES = (
    "dask",
    "distributed",
    "tornado",
    "msgpack",
    "cloudpickle",
    "py-spy",
    "viztracer",
    "memray",
)

PLACES = ("contact-address", "dashboard", "http", "preload", "preload-argv")
"""Of the scheduler's configuration what says where it is, and not how it works."""

WINDOWS = "_schedprof_windows"
"""Attribute of the scheduler while windows are open: how many, and the tasks it forgot since."""


def open_window(client: str = "", dask_scheduler: Any = None) -> dict[str, Any]:
    """Counters at the begin of a segment; from here on they outlast a restart.

    `Client.restart` makes the scheduler forget its counts. What they were is kept by standing
    before the method that forgets them, as long as a window is open. (A plugin would be called
    at every transition, and be seen in every profile. Where others use the scheduler too, one
    tells their tasks from those of the client's process: else what is per task would be of theirs.)
    """
    if client:
        others.start(client, dask_scheduler)
    windows = dask_scheduler.__dict__.setdefault(WINDOWS, {"open": 0, "forgotten": 0})
    windows["open"] += 1
    forget = getattr(dask_scheduler, "_clear_task_state", None)
    if windows["open"] == 1 and forget is not None:

        def count_and_forget() -> None:
            windows["forgotten"] += finished_tasks(dask_scheduler)
            forget()

        dask_scheduler._clear_task_state = count_and_forget
    return _counters(dask_scheduler)


def close_window(client: str = "", dask_scheduler: Any = None) -> dict[str, Any]:
    """Counters at the end of a segment; nothing stands before the scheduler any more."""
    counters = _counters(dask_scheduler)
    if client:
        theirs = others.stop(client, dask_scheduler)
        counters["others_tasks"] = theirs["tasks"]
        counters["tasks"] -= theirs["tasks"]
        counters["transitions"] -= theirs["transitions"]
    windows = getattr(dask_scheduler, WINDOWS, {"open": 1})  # one that never came to be opened
    windows["open"] -= 1
    if not windows["open"]:
        for name in (WINDOWS, "_clear_task_state"):
            dask_scheduler.__dict__.pop(name, None)
    return counters


def _counters(scheduler: Any) -> dict[str, Any]:
    forgotten = getattr(scheduler, WINDOWS, {}).get("forgotten", 0)
    return {
        "time": time.time(),
        "cpu": time.process_time(),
        "tasks": forgotten + finished_tasks(scheduler),
        "transitions": scheduler.transition_counter,
    }


def finished_tasks(dask_scheduler: Any = None) -> int:
    """Tasks that came into memory or failed since the scheduler last forgot all tasks."""
    counts = [prefix.state_counts for prefix in dask_scheduler.task_prefixes.values()]
    return sum(count["memory"] + count["erred"] for count in counts)


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
        **environment(),
    }


def environment() -> dict[str, Any]:
    """What figures depend on beside the code."""
    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "platform": platform.platform(),
        "versions": versions(),
        "machine": _machine(),
        "configuration": _configuration(),
    }


def _machine() -> str:
    """Model and number of the processors, as far as the system tells."""
    model = ""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        told = (line.partition(":") for line in lines)
        model = next((value.strip() for key, _, value in told if key.startswith("model name")), "")
    return f"{model or platform.processor() or platform.machine()} x {os.cpu_count()}"


def _configuration() -> dict[str, str]:
    """What decides how the scheduler works, from the configuration of its process."""
    section = dask.config.get("distributed.scheduler", {})
    return {
        name: str(value) for name, value in _flat(section, "") if name.split(".")[0] not in PLACES
    }


def _flat(section: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name.replace('_', '-')}.")
        else:
            yield prefix + name.replace("_", "-"), value


def versions() -> dict[str, str]:
    """Of the packages that are installed here, among those that matter."""
    return {name: found for name in PACKAGES if (found := _version(name))}


def process() -> tuple[str, int, str]:
    """What tells a process from all others, also those in containers, which number their own."""
    try:
        numbering = os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux
        numbering = ""
    return platform.node(), os.getpid(), numbering


def worker_names(dask_scheduler: Any = None) -> dict[str, Any]:
    """By their addresses."""
    return {address: worker.name for address, worker in dask_scheduler.workers.items()}


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
            left -= others.wanted_by(clients, dask_scheduler)
        if not left or begun > deadline:
            return len(left)
        # Where others have many tasks a look takes long: leave the scheduler time for them.
        await asyncio.sleep(max(0.002, time.monotonic() - begun))


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
