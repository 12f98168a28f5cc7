"""Work on dask's collections: arrays, data frames and delayed values."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from math import isqrt
from typing import Any
from uuid import uuid4

from dask.core import flatten
from distributed import Client, futures_of

from pytest_schedprof.formats.workload import read_file
from pytest_schedprof.model.workload import Graph, Workload
from pytest_schedprof.replay.acting import ends_of, part_of
from pytest_schedprof.replay.replaying import replay_workload
from pytest_schedprof.workloads.shapes import CHAIN, finish, inc, join

__all__ = [
    "column_arithmetic",
    "deep_collections",
    "delayed_array",
    "first_rows",
    "fused",
    "high_level_graph",
    "low_level_graph",
    "p2p_rechunk",
    "p2p_shuffle",
    "rechunk",
    "recorded_rechunk",
    "recorded_shuffle",
    "recorded_sweep",
    "set_index",
    "taken",
    "tokens_of_data",
]

LAYERS = 8


def rechunk(client: Client, size: int) -> None:
    """Rechunk an array from rows to columns."""
    _rechunk(client, size, "tasks", f"rows-{uuid4().hex}")


def p2p_rechunk(client: Client, size: int) -> None:
    """Rechunk an array from rows to columns by P2P: workers send each other the parts."""
    _rechunk(client, size, "p2p", f"rows-{uuid4().hex}")


def _rechunk(client: Client, size: int, method: str, name: str) -> None:
    import dask
    import dask.array

    width = max(2, isqrt(size))
    with dask.config.set({"array.rechunk.method": method}):
        rows = dask.array.zeros((width, width), chunks=(1, width), name=name)
        finish(client, futures_of(client.persist(rows.rechunk((width, 1)))))


def p2p_shuffle(client: Client, size: int) -> None:
    """Shuffle a time series by P2P: workers send each other the rows."""
    import dask

    with dask.config.set({"dataframe.shuffle.method": "p2p"}):
        finish(client, futures_of(client.persist(_frame(max(2, isqrt(size) // 2)).shuffle("id"))))


def tokens_of_data(client: Client, size: int) -> None:
    """Run tasks on arrays, indices and frames, whose keys depend on their content."""
    import numpy as np
    import pandas as pd

    ranges = [pd.RangeIndex(number) for number in range(size // 4)]
    arrays = [np.arange(number) for number in range(size // 4)]
    frames = [pd.DataFrame({"x": [number], "y": ["a"]}) for number in range(size // 4)]
    series = [pd.Series(number, pd.date_range("2000", periods=2)) for number in range(size // 4)]
    finish(client, client.map(inc, [*ranges, *arrays, *frames, *series]))


def taken(client: Client, size: int) -> None:
    """Pick elements of an array by an index array, in an order that mixes its chunks."""
    import dask.array
    import numpy as np

    length = max(4, size // 2)
    array = dask.array.zeros(length, chunks=4, name="zeros")
    finish(client, futures_of(client.persist(array[np.arange(length) * 7 % length])))


def fused(client: Client, size: int) -> None:
    """Persist an array of many layers, which become one task for each chunk."""
    import dask.array

    width = max(1, isqrt(size))
    expression = dask.array.zeros(width, chunks=1, name="zeros")
    for _ in range(width):
        expression = expression + 1
    finish(client, futures_of(client.persist(expression)))


def delayed_array(client: Client, size: int) -> None:
    """Compute a delayed function of an array, for which all of its tasks are renamed."""
    import dask.array
    from dask.delayed import delayed

    array = dask.array.zeros(size // 4, chunks=1, name="zeros") + 1
    finish(client, [client.compute(delayed(join)(array))])


def deep_collections(client: Client, size: int) -> None:
    """Persist delayed values, each of which ends a chain of fifty layers."""
    from dask.delayed import delayed

    step = delayed(inc, pure=False)
    level = [step(number) for number in range(max(1, size // CHAIN))]
    for _ in range(CHAIN - 1):
        level = [step(value) for value in level]
    finish(client, futures_of(client.persist(level)))


def high_level_graph(client: Client, size: int) -> None:
    """Persist an array of eight layers, whose tasks the scheduler makes."""
    layered = _layered(size)
    finish(client, futures_of(client.persist(layered, optimize_graph=False)))


def low_level_graph(client: Client, size: int) -> None:
    """Run the tasks of the same array, made by the client."""
    layered = _layered(size)
    keys = list(flatten(layered.__dask_keys__()))
    finish(client, client.get(dict(layered.__dask_graph__()), keys, sync=False))


def _layered(size: int) -> Any:
    import dask.array

    width = max(1, size // LAYERS)
    layered = dask.array.zeros(width, chunks=1, name=f"zeros-{uuid4().hex}")
    for _ in range(LAYERS - 1):
        layered = layered + 1
    return layered


def set_index(client: Client, size: int) -> None:
    """Sort a time series by another column, with a task-based shuffle."""
    import dask

    frame = _frame(max(2, isqrt(size)))
    divisions = list(range(0, 2001, max(1, 2000 // frame.npartitions)))
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        finish(client, futures_of(client.persist(frame.set_index("id", divisions=divisions))))


def column_arithmetic(client: Client, size: int) -> None:
    """Add and subtract columns, then sum up the result."""
    frame = _frame(size // 8)
    finish(client, [client.compute((frame.x + 1 + 2 - frame.y).sum())])


def first_rows(client: Client, size: int) -> None:
    """Compute the head of a persisted frame ten times."""
    frame = client.persist(_frame(size // 2))
    finish(client, futures_of(frame))
    for _ in range(10):
        finish(client, [client.compute(frame.head(compute=False))])


def _frame(partitions: int) -> Any:
    """Make a time series whose partitions are an hour each."""
    import dask

    start = datetime(2000, 1, 1)
    end = start + timedelta(hours=max(1, partitions))
    return dask.datasets.timeseries(
        start=str(start), end=str(end), freq="10min", partition_freq="1h", seed=1
    )


SPEED = 10.0
"""Graphs arrive so many times as fast: the machine that recorded them was small and busy."""


def recorded_shuffle(client: Client, size: int) -> None:
    """Merge two data frames by a task-based shuffle, and sum up groups."""
    _replay(client, "recorded_shuffle", size)


def recorded_rechunk(client: Client, size: int) -> None:
    """Rechunk an array, smooth it over the borders of its chunks, and reduce it."""
    _replay(client, "recorded_rechunk", size)


def recorded_sweep(client: Client, size: int) -> None:
    """Search a parameter: each result leads to another small graph."""
    _replay(client, "recorded_sweep", size)


def _replay(client: Client, name: str, size: int) -> None:
    """Replay the tasks that ended first, or all of them as often as the size needs."""
    workload = read_file(name)
    tasks = sum(len(graph.tasks) for graph in workload.graphs)
    if size < tasks:
        workload = first_tasks(workload, size)
    for _ in range(max(1, size // tasks)):
        client.sync(replay_workload, client, workload, SPEED)


def first_tasks(workload: Workload, count: int) -> Workload:
    """Return the tasks that ended first. What they need ended before them."""
    ended = sorted(workload.results, key=lambda number: (workload.results[number].time, number))
    part = part_of(workload, {*ended[:count]})
    graphs = map(_with_ends, part.graphs)
    return replace(part, graphs=[graph for graph in graphs if graph.tasks or graph.wanted])


def _with_ends(graph: Graph) -> Graph:
    """Also want what no other task needs: it would not run otherwise."""
    return replace(graph, wanted=[*dict.fromkeys([*graph.wanted, *ends_of(graph.tasks)])])
