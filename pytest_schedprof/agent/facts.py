"""Facts that the scheduler knows about itself, each read in one call."""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from .decisions import world_of

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

LOCATION_SETTINGS = ("contact-address", "dashboard", "http", "preload", "preload-argv")
"""Settings of the scheduler that say where it is and not how it works."""

RANDOM_SEED = "random"

WINDOWS = "_schedprof_windows"
"""Attribute of the scheduler while windows are open: their number, and tasks forgotten since."""


def open_window(dask_scheduler: Any = None) -> dict[str, Any]:
    """Return counters at the start of a segment, and make them survive a restart.

    `Client.restart` makes the scheduler forget its counts. While a window is open, the method that
    forgets them is wrapped to keep them. A plugin instead would be called at every transition and
    be in every profile.
    """
    windows = dask_scheduler.__dict__.setdefault(WINDOWS, {"open": 0, "forgotten": 0})
    windows["open"] += 1
    forget = getattr(dask_scheduler, "_clear_task_state", None)
    if windows["open"] == 1 and forget is not None:

        def count_and_forget() -> None:
            windows["forgotten"] += finished_tasks(dask_scheduler)
            forget()

        dask_scheduler._clear_task_state = count_and_forget
    if (world := world_of(dask_scheduler)) is not None:
        world.begin_log()
    return _counters(dask_scheduler)


def close_window(dask_scheduler: Any = None) -> dict[str, Any]:
    """Return counters at the end of a segment; with the last window remove the wrapper."""
    counters = _counters(dask_scheduler)
    if (world := world_of(dask_scheduler)) is not None:
        counters |= world.end_log()
    windows = getattr(dask_scheduler, WINDOWS, {"open": 1})  # the window was never opened
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


def collect_garbage(dask_scheduler: Any = None) -> None:
    """Collect what earlier work has left.

    A full collection takes as long as hundreds of tasks. Without this it is in one round and not in
    the next, and shares and CPU time scatter by it.
    """
    gc.collect()


def finished_tasks(dask_scheduler: Any = None) -> int:
    """Count tasks that finished or failed since the scheduler last forgot all tasks."""
    counts = [prefix.state_counts for prefix in dask_scheduler.task_prefixes.values()]
    return sum(count["memory"] + count["erred"] for count in counts)


def now() -> float:
    """Return the time of the event loop, by which its timers go; it may be virtual."""
    return asyncio.get_running_loop().time()


async def settle(steady: float, timeout: float, dask_scheduler: Any = None) -> None:
    """Wait until the scheduler has made no transition for a while.

    A test ends when its client has its results. Releases of tasks may still follow; without
    waiting they would be counted in one run and not in the next. In the test's own process, where
    often no scheduler is alive before and after the body, there is nothing to wait for then.
    """
    if not getattr(dask_scheduler, "is_any_alive", True):
        return
    deadline = now() + timeout
    before, since = dask_scheduler.transition_counter, now()
    while now() - since < steady and now() < deadline:
        await asyncio.sleep(steady / 10)
        if dask_scheduler.transition_counter != before:
            before, since = dask_scheduler.transition_counter, now()


def describe(dask_scheduler: Any = None) -> dict[str, Any]:
    """Return identity and environment of the scheduler."""
    workers = list(dask_scheduler.workers.values())
    return {
        "pid": os.getpid(),
        "workers": [worker.address for worker in workers],
        "threads": sum(worker.nthreads for worker in workers),
        "event_loop": type(asyncio.get_running_loop()).__module__.partition(".")[0],
        **environment(),
    }


def environment() -> dict[str, Any]:
    """Return facts that figures depend on besides the code."""
    import dask.config  # no command that only reads results needs it

    files = (getattr(sys.modules.get(name), "__file__", "") for name in ("distributed", "dask"))
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": versions(),
        "machine": _machine(),
        "hash_seed": hash_seed(),
        "configuration": {
            name: str(value)
            for name, value in _flat(dask.config.get("distributed.scheduler", {}), "")
            if name.split(".")[0] not in LOCATION_SETTINGS
        },
        "code": os.pathsep.join([sys.prefix, *(os.path.dirname(file or "") for file in files)]),
    }


def hash_seed() -> str:
    """Return the seed that orders this interpreter's sets of strings, `random` if it is not set."""
    seed = "" if sys.flags.ignore_environment else os.environ.get("PYTHONHASHSEED", "")
    return seed if seed.isdigit() else RANDOM_SEED


def _machine() -> str:
    """Return model and number of the processors, as far as the system tells."""
    model = ""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        pairs = (line.partition(":") for line in lines)
        model = next((value.strip() for key, _, value in pairs if key.startswith("model name")), "")
    return f"{model or platform.processor() or platform.machine()} x {os.cpu_count()}"


def _flat(section: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name.replace('_', '-')}.")
        else:
            yield prefix + name.replace("_", "-"), value


def versions() -> dict[str, str]:
    """Return the versions of those packages of `PACKAGES` that are installed here."""
    return {name: version for name in PACKAGES if (version := _version(name))}


def process() -> tuple[str, int, str]:
    """Return what identifies a process, also in containers, which have process IDs of their own."""
    try:
        numbering = os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux
        numbering = ""
    return platform.node(), os.getpid(), numbering


def workers(dask_scheduler: Any = None) -> tuple[str, ...]:
    """Return the addresses of the workers."""
    return tuple(dask_scheduler.workers)


@functools.cache
def _version(package: str) -> str:
    """Return the version of a package, or ""; read once, because that takes milliseconds."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def surroundings(dask_scheduler: Any = None) -> dict[str, Any]:
    """Return what is on the scheduler now: tasks, datasets, workers."""
    return {
        "tasks": frozenset(dask_scheduler.tasks),
        "datasets": frozenset(dask_scheduler.extensions["publish"].datasets),
        "workers": len(dask_scheduler.workers),
    }


async def wait_until_idle(
    timeout: float, tasks: frozenset[Any] = frozenset(), dask_scheduler: Any = None
) -> int:
    """Wait until the scheduler has no tasks but the given ones.

    Returns how many other tasks it still has at the deadline.
    """
    deadline = now() + timeout
    while True:
        start = now()
        left = dask_scheduler.tasks.keys() - tasks
        if not left or start > deadline:
            return len(left)
        # With many tasks of others a check takes long: leave the scheduler time to work.
        await asyncio.sleep(max(0.002, now() - start))


def processing(dask_scheduler: Any = None) -> frozenset[Any]:
    """Return keys of tasks that workers have been told to compute."""
    return frozenset(
        task.key for worker in dask_scheduler.workers.values() for task in worker.processing
    )


async def wait_until_worker_idle(
    timeout: float, others: frozenset[Any] = frozenset(), dask_worker: Any = None
) -> int:
    """Wait until a worker's threads run only the given tasks; cancelled ones count as running."""
    deadline = now() + timeout
    while running := sum(key not in others for key in dask_worker.active_threads.values()):
        if now() > deadline:
            break
        await asyncio.sleep(0.002)
    return running
