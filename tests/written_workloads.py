"""Writes workloads as files: what a recording writes while it runs, of one that is complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from itertools import chain, islice
from typing import Any

from pytest_schedprof.formats.workload import MAGIC, MICRO, as_block, differences, numbers
from pytest_schedprof.model.workload import Graph, Group, Result, Workload


def write_workload(workload: Workload, together: int = 1 << 16) -> bytes:
    """Return a whole file, from which `read_workload` reads the same workload.

    Times of results are rounded to microseconds, and so many of them are in a block at most.
    """
    return MAGIC + b"".join(as_block(content) for content in _contents(workload, together))


def _contents(workload: Workload, together: int) -> Iterator[dict[str, Any]]:
    """Yield what the blocks of a file contain."""
    yield {
        "kind": "head",
        "distributed": workload.distributed,
        "begun": workload.begun,
    }
    if workload.bandwidth:
        yield {"kind": "network", "bandwidth": workload.bandwidth}
    if workload.workers:
        yield {"kind": "workers", "workers": [astuple(event) for event in workload.workers]}
    yield from map(_graph_content, workload.graphs)
    results = _runs(workload)
    while rows_of_block := list(islice(results, together)):
        yield _results_content(rows_of_block)
    if workload.releases:
        released = workload.releases
        yield {
            "kind": "releases",
            "times": differences(round(free.time * MICRO) for free in released),
            "clients": numbers(free.client for free in released),
            "counts": numbers(len(free.tasks) for free in released),
            "ids": differences(chain.from_iterable(free.tasks for free in released)),
        }


def _graph_content(graph: Graph) -> dict[str, Any]:
    tasks = graph.tasks
    groups: dict[Group, int] = {}
    annotations: dict[str, int] = {}
    kinds = [annotations.setdefault(repr(task.annotations), len(annotations)) for task in tasks]
    firsts: dict[int, dict[str, Any]] = {}
    for kind, task in zip(kinds, tasks, strict=True):
        firsts.setdefault(kind, dict(task.annotations))
    return {
        "kind": "graph",
        "time": graph.time,
        "client": graph.client,
        "group": numbers(groups.setdefault(task.group, len(groups)) for task in tasks),
        "groups": [(group.prefix, group.number) for group in groups],
        "annotation": numbers(kinds),
        "annotations": list(firsts.values()),
        "ids": differences(task.number for task in tasks),
        "degrees": numbers(len(task.dependencies) for task in tasks),
        "dependencies": numbers(
            task.number - needed for task in tasks for needed in task.dependencies
        ),
        "wanted": differences(graph.wanted),
    }


def _runs(workload: Workload) -> Iterator[tuple[int, Result]]:
    """Yield the runs of each task: those that failed, then the last one."""
    for number, result in workload.results.items():
        for seconds in result.failed:
            yield number, Result(result.time, seconds, 0, True)
        yield number, result


def _results_content(rows: Sequence[tuple[int, Result]]) -> dict[str, Any]:
    results = [result for _, result in rows]
    return {
        "kind": "results",
        "ids": differences(number for number, _ in rows),
        "times": differences(round(result.time * MICRO) for result in results),
        "durations": numbers(round(result.seconds * MICRO) for result in results),
        "nbytes": numbers(result.nbytes for result in results),
        "errors": bytes(result.is_error for result in results),
    }
