"""Whose work it is: the span of the task, or of the graph, that the scheduler works on.

A stretch of work lasts from the start of one of the functions below to its return. A local variable
of the function tells the task or the graph. The innermost stretch counts, so that what a task's end
leads to for another task belongs to that one's span. What runs in no stretch is nobody's: the event
loop, messages with several tasks, and what the clock calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any

from .names import codes_of

NOBODY = ""
"""Label of work that belongs to no span."""

DEFAULT = "default"
"""Label of graphs outside of spans, which dask puts into a span of this name."""

EXTENSION = "spans"

KEY, TASK, GRAPH, OFFLOADED = "key", "ts", "annotations", "offloaded"
"""Local variables that tell whose work a function does; the last stands for the graph under way."""

STRETCHES: Mapping[str, str] = {
    "distributed.scheduler:SchedulerState._transition": KEY,
    "distributed.scheduler:Scheduler.handle_task_finished": KEY,
    "distributed.scheduler:Scheduler.handle_task_erred": KEY,
    "distributed.scheduler:Scheduler.handle_long_running": KEY,
    "distributed.scheduler:Scheduler.release_worker_data": KEY,
    "distributed.stealing:WorkStealing.move_task_confirm": KEY,
    "distributed.stealing:WorkStealing.move_task_request": TASK,
    "distributed.scheduler:Scheduler.update_graph": GRAPH,
    "distributed.scheduler:_materialize_graph": OFFLOADED,
    "dask.order:order": OFFLOADED,
}
"""Functions that work for one task or one graph, and what tells which."""

under_way: ContextVar[str] = ContextVar("schedprof_whose", default=NOBODY)
"""Label of the graph that is taken in: the thread to which a part of that is offloaded has the same
context."""


class Whose:
    """Tells the label of a stretch of work: the ID of a span, `NOBODY` or `DEFAULT`."""

    def __init__(self, scheduler: Any, codes: Mapping[str, CodeType]) -> None:
        """Look at a scheduler that has the extension for spans.

        Args:
            scheduler: the scheduler.
            codes: code of the functions in `STRETCHES`, as far as this release has them.
        """
        self.scheduler = scheduler
        self.spans: Mapping[str, Any] = scheduler.extensions[EXTENSION].spans
        self.names: dict[str, tuple[str, ...]] = {NOBODY: (), DEFAULT: (DEFAULT,)}
        ways: Mapping[str, Callable[[FrameType], str | None]] = {
            KEY: self._of_key,
            TASK: self._of_task,
            GRAPH: self._of_graph,
            OFFLOADED: lambda frame: under_way.get(),
        }
        self.stretches = {id(code): ways[STRETCHES[name]] for name, code in codes.items()}
        """How to tell whose a stretch is, by the `id` of the function's code."""
        self.before = self._tasks_by_span()

    def label_of(self, frame: FrameType) -> str | None:
        """Return whose the stretch is that a frame begins; None if that cannot be told."""
        try:
            return self.stretches[id(frame.f_code)](frame)
        except Exception:  # of another release: the code that is measured must not see it
            return None

    def innermost(self, frame: FrameType | None) -> str:
        """Return whose work is done in a frame: that of the innermost stretch it is in."""
        while frame is not None:
            if id(frame.f_code) in self.stretches and (label := self.label_of(frame)):
                return label
            frame = frame.f_back
        return NOBODY

    def _of_key(self, frame: FrameType) -> str | None:
        here = frame.f_locals
        task = here.get(TASK)  # of a task that is being forgotten, nothing else knows
        if task is None:
            task = self.scheduler.tasks.get(here[KEY])
        return None if task is None else task.group.span_id

    def _of_task(self, frame: FrameType) -> str | None:
        found: str | None = frame.f_locals[TASK].group.span_id
        return found

    def _of_graph(self, frame: FrameType) -> str:
        span = (frame.f_locals[GRAPH] or {}).get("span")
        label: str = span["ids"][-1] if span else DEFAULT
        if span:
            self.names[label] = tuple(span["name"])
        under_way.set(label)
        return label

    def name_of(self, label: str) -> tuple[str, ...]:
        """Return the name of a span; dask puts some tasks into another span than asked for."""
        found = self.spans.get(label)
        return self.names.get(label, (label,)) if found is None else tuple(found.name)

    def tasks(self) -> dict[tuple[str, ...], int]:
        """Return how many tasks came to the spans of each name since this object was made."""
        found: dict[tuple[str, ...], int] = {}
        for label, tasks in self._tasks_by_span().items():
            if more := tasks - self.before.get(label, 0):
                name = self.name_of(label)
                found[name] = found.get(name, 0) + more
        return found

    def told(self, labels: list[str]) -> dict[str, Any]:
        """Return the names of labels, the number of the name of each, and the tasks by name."""
        numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        return {
            "names": [self.name_of(label) for label in numbers],
            "samples": [numbers[label] for label in labels],
            "tasks": list(self.tasks().items()),
        }

    def _tasks_by_span(self) -> dict[str, int]:
        return {
            label: sum(sum(group.states.values()) for group in span.groups)
            for label, span in list(self.spans.items())
        }


def whose_in(scheduler: Any) -> Whose | None:
    """Return what tells whose work a scheduler does; None if it knows no spans, or is none."""
    extension = (getattr(scheduler, "extensions", None) or {}).get(EXTENSION)
    if not hasattr(extension, "spans"):  # a worker's extension of this name has none
        return None
    codes = {name: code for name in STRETCHES for code in codes_of([name])}
    return Whose(scheduler, codes)
