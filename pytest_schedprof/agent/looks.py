"""Times what a scheduler does for each worker while it decides about one task, with many workers.

It looks at a few attributes of each one. Those of many workers do not fit the processor's caches,
and a bytecode takes ten times as long then. To time that, no cluster of that size is needed, only
the scheduler's objects of so many workers.
"""

from __future__ import annotations

import dis
import gc
import random
from collections.abc import Sequence
from statistics import median
from time import thread_time
from typing import Any

TOUCHED = 10_000
"""Other objects that are touched between two sweeps, about as a task's other work does it."""

PARTS = 8
"""Sweeps over an eighth of the workers, two eighths, and so on are timed: the scheduler looks at
those that are idle, which are all of them at first, and fewer with each task that is given out."""

LEAST_SWEEPS, LEAST_LOOKS, MOST_SWEEPS = 3, 4000, 300
"""How many sweeps of a part and how many looks at workers are timed, and when that is enough."""


def load_of(worker: Any) -> float:
    """Return what the scheduler compares workers by, when it chooses one for a root task."""
    return len(worker.processing) / worker.nthreads  # type: ignore[no-any-return]


BYTECODES = sum(1 for each in dis.get_instructions(load_of) if each.opname != "RESUME")
"""Of a look, as the backend `counts` counts them."""


def time_looks(sizes: Sequence[int], dask_scheduler: Any = None) -> dict[int, float]:
    """Return the CPU seconds of one bytecode of a sweep over so many workers."""
    had_collector = gc.isenabled()
    gc.disable()
    try:
        template = next(iter(dask_scheduler.workers.values()))
        workers = [template.clean() for _ in range(max(sizes))]
        others: list[list[Any]] = [[] for _ in range(4 * TOUCHED)]
        source = random.Random(1)
        source.shuffle(workers)  # a set has them in no order
        source.shuffle(others)
        return {size: _time_of_bytecode(workers[:size], others) for size in sizes}
    finally:
        if had_collector:
            gc.enable()


def _time_of_bytecode(workers: Sequence[Any], others: Sequence[list[Any]]) -> float:
    parts = [max(1, len(workers) * part // PARTS) for part in range(1, PARTS + 1)]
    spent = {each: _time_of_sweep(workers[:each], others) for each in set(parts)}
    return sum(spent[each] for each in parts) / sum(parts) / BYTECODES


def _time_of_sweep(workers: Sequence[Any], others: Sequence[list[Any]]) -> float:
    found = []
    for number in range(min(MOST_SWEEPS, max(LEAST_SWEEPS, LEAST_LOOKS // len(workers)))):
        place = number % 4 * TOUCHED
        sum(map(len, others[place : place + TOUCHED]))
        begun = thread_time()
        min(workers, key=load_of)
        found.append(thread_time() - begun)
    return median(found)
