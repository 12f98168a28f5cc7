"""Recorded workloads of real collections; `benchmarks/record_shipped.py` has recorded them.

Their tasks have the durations and sizes of the cluster. Those that were recorded are given to
simulated and virtual clusters by the option `workload` with the name of the workload.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from distributed import Client

from pytest_schedprof.formats.workload import write_workload
from pytest_schedprof.formats.workload_files import read_files
from pytest_schedprof.model.workload import Graph, Workload
from pytest_schedprof.record.replaying import replay

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
    workload = read_files(name)
    tasks = sum(len(graph.tasks) for graph in workload.graphs)
    if size >= tasks:
        for _ in range(size // tasks):
            replay(client, name, speed=SPEED)
        return
    with TemporaryDirectory(prefix="schedprof-") as directory:
        part = Path(directory) / f"{name}.schedprof"
        part.write_bytes(write_workload(first_tasks(workload, size)))
        replay(client, part, speed=SPEED)


def first_tasks(workload: Workload, count: int) -> Workload:
    """Return the tasks that ended first. What they need ended before them."""
    ended = sorted(workload.results, key=lambda number: (workload.results[number].time, number))
    chosen = {*ended[:count]}
    graphs = [_part(graph, chosen) for graph in workload.graphs]
    return replace(
        workload,
        graphs=[graph for graph in graphs if graph.tasks or graph.wanted],
        results={number: workload.results[number] for number in chosen},
    )


def _part(graph: Graph, chosen: set[int]) -> Graph:
    tasks = [task for task in graph.tasks if task.number in chosen]
    needed = {number for task in tasks for number in task.dependencies}
    # A task that no other one needs would not run unless it is wanted.
    ends = [task.number for task in tasks if task.number not in needed]
    wanted = [number for number in graph.wanted if number in chosen]
    return replace(graph, tasks=tasks, wanted=[*dict.fromkeys([*wanted, *ends])])
