"""Measures the scheduler under a load: its CPU time and tasks, and how late its loop is."""

from __future__ import annotations

import asyncio
from time import thread_time
from typing import Any

import psutil

from . import facts

LOAD = "_schedprof_load"
"""Attribute of the scheduler while it is measured."""

EVERY_S = 0.02
"""Interval of the timer whose lateness is the lag."""

CHECK_S = 0.01


class Lag:
    """How late a timer of the event loop is, at the most.

    Late by the clock, but not by more than the CPU time that the loop's thread used since the timer
    was set: a neighbour on the machine cannot make it later.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.most = 0.0
        self.set()

    def set(self) -> None:
        """Set the timer."""
        self.due, self.cpu = self.loop.time() + EVERY_S, thread_time()
        self.timer = self.loop.call_at(self.due, self.ring)

    def ring(self) -> None:
        """Note how late it is, and set it again."""
        self.note()
        self.set()

    def note(self) -> None:
        """Note how late it is now."""
        late = min(self.loop.time() - self.due, thread_time() - self.cpu)
        self.most = max(self.most, late)

    def end(self) -> float:
        """Remove the timer."""
        self.note()
        self.timer.cancel()
        return self.most


async def begin(dask_scheduler: Any = None) -> dict[str, Any]:
    """Begin to measure; return the counters."""
    setattr(dask_scheduler, LOAD, Lag())
    return {**facts.open_window(dask_scheduler=dask_scheduler), "at": facts.now()}


async def end(patience: float, dask_scheduler: Any = None) -> dict[str, Any]:
    """Wait until all tasks are forgotten, which is work too; return the counters and the lag."""
    await wait_until_empty(patience, dask_scheduler)
    lag = dask_scheduler.__dict__.pop(LOAD).end()
    counters = facts.close_window(dask_scheduler=dask_scheduler)
    return {**counters, "at": facts.now(), "lag": lag}


async def wait_until_empty(patience: float, dask_scheduler: Any = None) -> None:
    """Wait until all tasks are forgotten, or until the patience is over."""
    deadline = facts.now() + patience
    while dask_scheduler.tasks and facts.now() < deadline:
        await asyncio.sleep(CHECK_S)


def memory(dask_scheduler: Any = None) -> int:
    """Return the bytes of memory that the process has."""
    return int(psutil.Process().memory_info().rss)
