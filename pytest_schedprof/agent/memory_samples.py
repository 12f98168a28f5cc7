"""Dask's own samplers of what workers hold in memory, on the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def start(
    client: str, measures: Sequence[str], interval_s: float, dask_scheduler: Any = None
) -> list[str]:
    """The key of a sampler for each measure; they end with the client, too."""
    begin = dask_scheduler.handlers["memory_sampler_start"]
    return [begin(client=client, measure=each, interval=interval_s) for each in measures]


def stop(keys: Sequence[str], dask_scheduler: Any = None) -> list[list[tuple[float, int]]]:
    """What each sampled: time and bytes."""
    end = dask_scheduler.handlers["memory_sampler_stop"]
    return [end(key=each) for each in keys]
