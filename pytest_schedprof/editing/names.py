"""A recorded workload without the names that users gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from string import ascii_lowercase
from typing import Any

from pytest_schedprof.model.workload import Group, Task, Workload

PREFIX, RESOURCE = "prefix", "resource"
RESOURCES = "resources"
"""The annotation that has names of resources."""


def anonymise(workload: Workload) -> Workload:
    """Return a workload whose prefixes and resources are named by their order of appearance.

    When it was recorded is not told either.
    """
    prefixes, resources = _Names(PREFIX), _Names(RESOURCE)
    graphs = [
        replace(graph, tasks=[_hidden(task, prefixes, resources) for task in graph.tasks])
        for graph in workload.graphs
    ]
    return replace(workload, graphs=graphs, begun="")


def _hidden(task: Task, prefixes: _Names, resources: _Names) -> Task:
    annotations: Mapping[str, Any] = task.annotations
    if RESOURCES in annotations:
        amounts = {resources.of(name): each for name, each in annotations[RESOURCES].items()}
        annotations = {**annotations, RESOURCES: amounts}
    group = Group(prefixes.of(task.group.prefix), task.group.number)
    return Task(task.number, group, task.dependencies, annotations)


class _Names:
    """Gives each name another one, which dask reads as a prefix of tasks."""

    def __init__(self, word: str) -> None:
        self._word = word
        self._found: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Return the other name."""
        if name not in self._found:
            self._found[name] = f"{self._word}-{letters(len(self._found))}"
        return self._found[name]


def letters(number: int) -> str:
    """Return a number in letters: a to z, aa, ab, ..."""
    found = ""
    while number >= 0:
        number, rest = divmod(number, len(ascii_lowercase))
        found, number = ascii_lowercase[rest] + found, number - 1
    return found
