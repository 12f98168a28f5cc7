"""Graphs of recorded tasks, in the form in which dask takes them from a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pytest_schedprof.model.workload import Key, Task

ACTOR = "actor"
"""The annotation of tasks that are actors. Clients name these beside a graph, not in it."""


def _placeholder(*dependencies: Any) -> None:
    """Replace the code of a task, which was not recorded."""


def graph_of(
    tasks: Sequence[Task],
    keys: Mapping[int, Key],
    held: Mapping[int, Any],
    where: Callable[[int], str],
) -> Any:
    """Return a graph with a layer for each set of annotations.

    Args:
        tasks: the tasks of the graph.
        keys: names of tasks.
        held: futures of the client, for dependencies outside of the graph.
        where: returns the worker that replaces one to which tasks are restricted.
    """
    from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

    layer_of = {
        task.number: f"replay-{sorted(task.annotations.items())}" if task.annotations else "replay"
        for task in tasks
    }
    layers: dict[str, dict[Key, Any]] = {name: {} for name in layer_of.values()}
    needs: dict[str, set[str]] = {name: set() for name in layers}
    annotations: dict[str, dict[str, Any]] = {}
    for task in tasks:
        name = layer_of[task.number]
        annotations.setdefault(name, _annotations(task, where))
        arguments = [
            keys[number] if number in layer_of else held[number]
            for number in task.dependencies
            if number in layer_of or number in held
        ]
        layers[name][keys[task.number]] = (_placeholder, *arguments)
        inside = {layer_of[number] for number in task.dependencies if number in layer_of}
        needs[name] |= inside - {name}
    made = {
        name: MaterializedLayer(layer, annotations=annotations[name] or None)
        for name, layer in layers.items()
    }
    return HighLevelGraph(made, needs)


def _annotations(task: Task, where: Callable[[int], str]) -> dict[str, Any]:
    annotations = {name: value for name, value in task.annotations.items() if name != ACTOR}
    if "workers" in annotations:
        annotations["workers"] = [where(worker) for worker in annotations["workers"]]
    return annotations


def actors_among(tasks: Iterable[Task], keys: Mapping[int, Key]) -> tuple[Key, ...] | None:
    """Return the names of the tasks that are actors, or None, which clients want for none.

    Clients take several names in a tuple only; a list would be one name.
    """
    return tuple(keys[task.number] for task in tasks if task.annotations.get(ACTOR)) or None


def with_earlier(tasks: Sequence[Task], earlier: Mapping[int, Task], held: Any) -> list[Task]:
    """Return tasks and those of earlier graphs that they need and the client does not hold.

    The recorded client must have sent them again; the scheduler knows them and does nothing.
    """
    graph = {task.number: task for task in tasks}
    waiting = list(tasks)
    while waiting:
        for number in waiting.pop().dependencies:
            if number not in graph and number not in held and number in earlier:
                graph[number] = earlier[number]
                waiting.append(earlier[number])
    return list(graph.values())
