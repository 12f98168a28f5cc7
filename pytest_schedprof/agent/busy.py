"""Keeps the scheduler's thread busy, for a measurement of how often it can be sampled."""

from __future__ import annotations

import time
from typing import Any

DEPTH = 10
"""Further frames on the stack: a profiler needs more time for a deeper one.

Those of the event loop and of the call are about twelve already. A transition of a task that a
worker has finished is at a depth of 20 to 25.
"""


def keep_busy(seconds: float, dask_scheduler: Any = None) -> float:
    """Keep this thread busy below some frames of its own; return the seconds that it took."""
    begun = time.perf_counter()
    descend(DEPTH, begun + seconds)
    return time.perf_counter() - begun


def descend(frames: int, end: float) -> None:
    """Be busy until that time, with so many more frames on the stack."""
    if frames:
        descend(frames - 1, end)
        return
    while time.perf_counter() < end:
        pass
