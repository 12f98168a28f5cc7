"""A preload of tests: plants troubles in a scheduler, and lets clients cause them."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from typing import Any


def spin(seconds: float) -> None:
    """Use CPU time within one callback."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def stall(seconds: float, dask_scheduler: Any = None) -> None:
    """Stall the loop from a callback of its own."""
    await asyncio.sleep(0)
    spin(seconds)


async def stall_thrice(seconds: float, dask_scheduler: Any = None) -> None:
    """Stall the loop from three callbacks of one turn."""
    for _ in range(3):
        asyncio.get_running_loop().call_soon(spin, seconds)
    await asyncio.sleep(0)


async def be_late(seconds: float, dask_scheduler: Any = None) -> None:
    """Keep the loop waiting without the CPU, as for a slow disk."""
    asyncio.get_running_loop().call_soon(time.sleep, seconds)


async def hang(path: str, seconds: float, dask_scheduler: Any = None) -> None:
    """Occupy the loop until a file exists, and use so much CPU time first."""
    end = time.thread_time() + seconds
    while not os.path.exists(path):
        if time.thread_time() > end:
            time.sleep(0.01)
    logging.getLogger("distributed.plants").warning("it is over")


async def leave(dask_scheduler: Any = None) -> None:
    """End the process from a callback, as an error of the interpreter's would."""
    asyncio.get_running_loop().call_soon(sys.exit, 3)


async def fail(dask_scheduler: Any = None) -> None:
    """Let a callback of the loop fail."""
    asyncio.get_running_loop().call_soon(explode)
    await asyncio.sleep(0)


def explode() -> None:
    raise LookupError("a planted error")


async def fork(dask_scheduler: Any = None) -> int:
    """Fork a child that uses the CPU for several ticks; return its status."""
    child = os.fork()
    if child == 0:
        spin(0.3)
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def profile(dask_scheduler: Any = None) -> None:
    """Take the signal of profilers by CPU time, as another profiler would."""
    import signal

    signal.signal(signal.SIGPROF, signal.SIG_IGN)


HASTE_S = 20.0
"""For so long a core must be full in a scheduler that is in haste."""


def dask_setup(scheduler: Any) -> None:
    """Be another profiler before the black box comes, or let it be in haste, if asked to."""
    planted = os.environ.get("PLANTED")
    if planted == "profiler":
        import signal

        signal.signal(signal.SIGPROF, lambda number, frame: None)
    elif planted == "haste":
        from pytest_schedprof.blackbox import box

        box.FULL_S = HASTE_S


def seen(dask_scheduler: Any = None) -> tuple[int, int]:
    """Return how many tasks the black box has counted, and of those that are not forgotten."""
    counting = dask_scheduler.extensions["schedprof-blackbox"].counting
    return counting.tasks, counting.tasks_then
