"""Numbers of tasks, groups, clients and workers, moved so that two workloads share none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from pytest_schedprof.model.workload import Graph, Group, Release, Task, WorkerEvent, Workload

WORKERS = "workers"
"""The annotation that has numbers of workers."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """What is added to the numbers and the times of a workload."""

    tasks: int = 0
    groups: int = 0
    clients: int = 0
    workers: int = 0
    seconds: float = 0.0

    def __add__(self, other: Offsets) -> Offsets:
        return Offsets(
            self.tasks + other.tasks,
            self.groups + other.groups,
            self.clients + other.clients,
            self.workers + other.workers,
            self.seconds + other.seconds,
        )


def first_free(workload: Workload) -> Offsets:
    """Return the first numbers that a workload does not have."""
    groups = (each.group.number for each in workload.tasks())
    asked: list[Graph | Release] = [*workload.graphs, *workload.releases]
    return Offsets(
        tasks=_after(_tasks(workload)),
        groups=_after(number for number in groups if number is not None),
        clients=_after(each.client for each in asked),
        workers=_after(_workers(workload)),
    )


def _after(numbers: Iterable[int]) -> int:
    return max(numbers, default=-1) + 1


def _tasks(workload: Workload) -> Iterator[int]:
    """Yield all numbers of tasks, also of those that are only mentioned."""
    for task in workload.tasks():
        yield task.number
        yield from task.dependencies
    for graph in workload.graphs:
        yield from graph.wanted
    for release in workload.releases:
        yield from release.tasks
    yield from workload.results


def _workers(workload: Workload) -> Iterator[int]:
    yield from (each.worker for each in workload.workers)
    for task in workload.tasks():
        yield from task.annotations.get(WORKERS, ())


def moved(workload: Workload, by: Offsets) -> Workload:
    """Return a workload with other numbers and times."""
    return replace(
        workload,
        graphs=[_moved_graph(each, by) for each in workload.graphs],
        releases=[_moved_release(each, by) for each in workload.releases],
        workers=[_moved_worker(each, by) for each in workload.workers],
        results={
            number + by.tasks: replace(each, time=each.time + by.seconds)
            for number, each in workload.results.items()
        },
    )


def _moved_graph(graph: Graph, by: Offsets) -> Graph:
    return replace(
        graph,
        time=graph.time + by.seconds,
        client=graph.client + by.clients,
        tasks=[_moved_task(each, by) for each in graph.tasks],
        wanted=[each + by.tasks for each in graph.wanted],
    )


def _moved_task(task: Task, by: Offsets) -> Task:
    annotations = task.annotations
    if WORKERS in annotations:
        workers = [each + by.workers for each in annotations[WORKERS]]
        annotations = {**annotations, WORKERS: workers}
    return Task(
        task.number + by.tasks,
        _moved_group(task.group, by),
        [each + by.tasks for each in task.dependencies],
        annotations,
    )


def _moved_group(group: Group, by: Offsets) -> Group:
    """Return another group; the one that is named as its prefix takes in all such tasks."""
    return group if group.number is None else Group(group.prefix, group.number + by.groups)


def _moved_release(release: Release, by: Offsets) -> Release:
    return replace(
        release,
        time=release.time + by.seconds,
        client=release.client + by.clients,
        tasks=[each + by.tasks for each in release.tasks],
    )


def _moved_worker(event: WorkerEvent, by: Offsets) -> WorkerEvent:
    return replace(event, time=event.time + by.seconds, worker=event.worker + by.workers)


BY_TIME: Callable[[Any], Any] = attrgetter("time")


def together(workloads: Sequence[Workload]) -> Workload:
    """Return workloads that share no number as one; its head is that of the first."""
    return replace(
        workloads[0],
        graphs=sorted((each for one in workloads for each in one.graphs), key=BY_TIME),
        releases=sorted((each for one in workloads for each in one.releases), key=BY_TIME),
        workers=sorted((each for one in workloads for each in one.workers), key=BY_TIME),
        results={number: each for one in workloads for number, each in one.results.items()},
    )
