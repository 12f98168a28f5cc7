"""Dask's own instruments on the scheduler: memory samplers, workers' profiles, a report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any


def clock(dask_scheduler: Any = None) -> dict[str, Any]:
    """Return the time, and the number of measurements of the scheduler's own monitor."""
    return {"time": time.time(), "looks": dask_scheduler.monitor.count}


async def draw(begun: dict[str, Any], code: str, dask_scheduler: Any = None) -> str:
    """Return the performance report, usable without a network; "" without Bokeh."""
    if find_spec("bokeh") is None:
        return ""
    page: str = await dask_scheduler.performance_report(
        start=begun["time"], last_count=begun["looks"], code=code, mode="inline"
    )
    return page


def start_samplers(
    client: str, measures: Sequence[str], interval_s: float, dask_scheduler: Any = None
) -> list[str]:
    """Start a sampler of workers' memory for each measure, and return their keys.

    They also end with the client.
    """
    begin = dask_scheduler.handlers["memory_sampler_start"]
    return [begin(client=client, measure=each, interval=interval_s) for each in measures]


def stop_samplers(keys: Sequence[str], dask_scheduler: Any = None) -> list[list[tuple[float, int]]]:
    """Return what each sampler saw: times and bytes."""
    end = dask_scheduler.handlers["memory_sampler_stop"]
    return [end(key=each) for each in keys]
