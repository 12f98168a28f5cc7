"""What the scheduler brings together itself: workers' profiles, and the performance report."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any


def clock(dask_scheduler: Any = None) -> dict[str, Any]:
    """Now, and how often the scheduler has looked at its own process."""
    return {"time": time.time(), "looks": dask_scheduler.monitor.count}


async def profile(since: float, dask_scheduler: Any = None) -> dict[str, Any]:
    """What workers' threads did, as `Client.profile` tells it, merged over all of them."""
    found: dict[str, Any] = await dask_scheduler.get_profile(start=since)
    return found


async def draw(begun: dict[str, Any], code: str, dask_scheduler: Any = None) -> str:
    """The page, with all that it needs to be opened without a network; empty without Bokeh."""
    if find_spec("bokeh") is None:
        return ""
    page: str = await dask_scheduler.performance_report(
        start=begun["time"], last_count=begun["looks"], code=code, mode="inline"
    )
    return page
