"""The steps in which a scheduler takes in a graph, as limits, tables and pages name them."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_schedprof.model.profile import Function, compile_pattern

PREFIX = "intake:"
"""Start of a step's name in the place of a function: `intake:ordering`."""

STEPS: Mapping[str, str] = {
    "unpickling": "what the client sent becomes a graph again",
    "materialising": "the graph becomes a table of tasks",
    "annotations": "of layers and tasks, read and applied",
    "culling": "tasks that no wanted key needs are dropped",
    "ordering": "dask.order: which task comes first",
    "matching": "what the scheduler has already, and what is lost",
    "states": "a TaskState for each task, and its dependencies",
    "priorities": "of each task",
    "wishes": "which client wants which keys",
    "spans": "the span of each task",
    "plugins": "of the scheduler, that do something with graphs",
    "transitions": "the first ones of the tasks",
    "imports": "of modules that no graph before needed",
    "gc": "collections of garbage, in whatever step",
    "rest": "all else in update_graph",
}
"""Each step in the order in which a graph passes them, with what happens there."""


ONCE = "imports"
"""A step of whichever graph comes first. It is in no sum."""


def step_of(function: Function) -> str:
    """Return the step that is named so in the place of a function; empty if it is none."""
    name = function.removeprefix(PREFIX)
    return name if function.startswith(PREFIX) and name in STEPS else ""


def steps_named(pattern: str) -> list[Function]:
    """Return the steps that a pattern names, in the place of functions."""
    matches = compile_pattern(pattern).fullmatch
    return [f"{PREFIX}{step}" for step in STEPS if matches(f"{PREFIX}{step}")]
