"""Replace the clock that the modules of dask and distributed read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import ModuleType

REAL = (time.time, time.monotonic)
"""The readings that decisions of the scheduler depend on. CPU time stays what it is."""

EPOCH = 1_000_000.0
"""Virtual time at which a cluster starts. Nothing of distributed is meant for a time near 0."""

RESOLUTION_S = 2e-10
"""Timers so near to the present are due. It is more than the distance of two floats at `EPOCH`."""

TICK_S = 1e-9


def at_least_a_tick(delay: float) -> float:
    """Return a delay by which the clock really moves.

    A timer that rounding let come too soon is often set again, for a delay that is too small to
    change the clock; it would do so for ever.
    """
    return max(delay, TICK_S) if delay > 0 else delay


def rounded(when: float) -> float:
    """Return a time in whole nanoseconds, so that equal times are equal however they came about."""
    return round(when, 9)


PACKAGES = ("dask", "distributed", "pytest_schedprof.simulation", "pytest_schedprof.virtual.worker")


def replace_clocks(reading: Callable[[], float]) -> ExitStack:
    """Give all imported modules of dask another clock; closing what is returned undoes it."""
    undo = ExitStack()
    for module in list(sys.modules.values()):
        name = f"{getattr(module, '__name__', '')}."
        if any(name.startswith(f"{each}.") for each in PACKAGES):
            _replace(module, reading, undo)
    return undo


def _replace(module: ModuleType, reading: Callable[[], float], undo: ExitStack) -> None:
    for name, value in list(vars(module).items()):
        if any(value is each for each in REAL):
            undo.callback(setattr, module, name, value)
            setattr(module, name, reading)
