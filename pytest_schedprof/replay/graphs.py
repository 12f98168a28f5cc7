"""Graphs of recorded tasks, in the form in which dask takes them from a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pytest_schedprof.model.workload import Key, Task

ACTOR = "actor"
"""The annotation of tasks that are actors. Clients name these beside a graph, not in it."""


def _placeholder(*dependencies: Any) -> None:
    """Stand in for the code of a task, which was not recorded."""


def graph_of(
    tasks: Iterable[Task],
    keys: Mapping[int, Key],
    held: Mapping[int, Any],
    where: Callable[[int], str],
) -> Any:
    """Return a graph with a layer for each set of annotations.

    Args:
        tasks: what is in it.
        keys: names of tasks.
        held: futures of the client, for dependencies that are not in the graph.
        where: returns the worker that stands for one that tasks are restricted to.
    """
    from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

    here = {each.number: each for each in tasks}
    layer_of = {number: _layer_name(each) for number, each in here.items()}
    layers: dict[str, dict[Key, Any]] = {name: {} for name in layer_of.values()}
    needs: dict[str, set[str]] = {name: set() for name in layers}
    annotations: dict[str, dict[str, Any]] = {}
    for number, task in here.items():
        name = layer_of[number]
        annotations.setdefault(name, _annotations(task, where))
        layers[name][keys[number]] = _spec(task, here, keys, held)
        needs[name] |= {layer_of[each] for each in task.dependencies if each in here} - {name}
    made = {
        name: MaterializedLayer(layer, annotations=annotations[name] or None)
        for name, layer in layers.items()
    }
    return HighLevelGraph(made, needs)


def _layer_name(task: Task) -> str:
    return f"replay-{sorted(task.annotations.items())}" if task.annotations else "replay"


def _spec(
    task: Task, here: Mapping[int, Task], keys: Mapping[int, Key], held: Mapping[int, Any]
) -> tuple[Any, ...]:
    """Return what dask is to call."""
    found = [
        keys[each] if each in here else held[each]
        for each in task.dependencies
        if each in here or each in held
    ]
    return (_placeholder, *found)


def _annotations(task: Task, where: Callable[[int], str]) -> dict[str, Any]:
    found = {name: each for name, each in task.annotations.items() if name != ACTOR}
    if "workers" in found:
        found["workers"] = [where(each) for each in found["workers"]]
    return found


def actors_among(tasks: Iterable[Task], keys: Mapping[int, Key]) -> tuple[Key, ...] | None:
    """Return the names of the tasks that are actors; None, as clients say it, if none is.

    Clients take several names in a tuple only; a list would be one name.
    """
    return tuple(keys[each.number] for each in tasks if each.annotations.get(ACTOR)) or None


def with_earlier(tasks: Sequence[Task], earlier: Mapping[int, Task], held: Any) -> list[Task]:
    """Return tasks and those of earlier graphs that they need and the client does not hold.

    A client that needs them must have sent them again; the scheduler knows them and does nothing.
    """
    found = {each.number: each for each in tasks}
    waiting = list(tasks)
    while waiting:
        for number in waiting.pop().dependencies:
            if number not in found and number not in held and number in earlier:
                found[number] = earlier[number]
                waiting.append(earlier[number])
    return list(found.values())
