"""Reads the scheduler's spans as plain data, and makes workers send the heartbeats they need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any

from .names import codes_of

DEFAULT = ("default",)
"""Name of the spans into which dask puts tasks that have none."""


def known_spans(dask_scheduler: Any = None) -> list[str]:
    extension = dask_scheduler.extensions.get("spans")
    return [] if extension is None else list(extension.spans)


def tell_spans(ids: list[str], before: list[str], dask_scheduler: Any = None) -> dict[str, Any]:
    """Return these spans, and all of them merged; a body without tasks has none.

    Args:
        ids: of the spans around the body.
        before: IDs of the spans that were there before.
    """
    extension = dask_scheduler.extensions.get("spans")
    if extension is None:
        return {"problem": "the scheduler has no extension for spans"}
    takes = [extension.spans[name] for name in ids if name in extension.spans]
    if not takes:
        return {"problem": "no task reached the scheduler from where the span was opened"}
    old = set(before)
    roots = [span for span in extension.root_spans if span.id not in old]
    return {
        "takes": [_plain(take) for take in takes],
        "merged": _merged(takes),
        "default": [_plain(root) for root in roots if root.name == DEFAULT],
        "all": _merged(roots),
        "tags": _by_tag(extension, takes),
    }


def _by_tag(extension: Any, takes: list[Any]) -> dict[str, Any]:
    """Return the sum of the spans with each tag that the body gave, as dask finds and merges them.

    A span within another one of the same tag is in the sum already.
    """
    inner = {
        span.id: span.name[len(take.name) :]
        for take in takes
        for span in take.traverse_spans()
        if span is not take
    }
    tags = dict.fromkeys(tag for name in inner.values() for tag in name)
    return {
        tag: _merged([span for span in extension.find_by_tags(tag) if span.id in inner])
        for tag in tags
    }


def _merged(spans: list[Any]) -> dict[str, Any]:
    """Return the sum of spans, which are not related; only one has its own sub-spans."""
    return _plain(type(spans[0]).merge(*spans), children=[])


def _plain(span: Any, children: Any = None) -> dict[str, Any]:
    below = span.children if children is None else children
    parent = span.parent
    return {
        "name": span.name,
        "id": span.id,
        "parent": "" if parent is None else parent.id,
        "annotation": span.annotation,
        "metadata": _of_json((span.metadata or {}).get("collections", ())),
        "groups": [_group(group) for group in sorted(span.groups, key=lambda group: group.start)],
        "enqueued": span.enqueued,
        "start": span.start,
        "stop": span.stop,
        "done": span.done,
        "states": dict(span.states),
        "duration": span.duration,
        "all_durations": dict(span.all_durations),
        "nbytes_total": span.nbytes_total,
        "active_cpu_seconds": span.active_cpu_seconds,
        "nthreads_intervals": list(span.nthreads_intervals),
        "code": [[_line(frame) for frame in frames] for frames in span.code],
        "cumulative_worker_metrics": [
            {"name": [str(part) for part in name], "value": value}
            for name, value in span.cumulative_worker_metrics.items()
        ],
        "children": [_plain(child) for child in below],
    }


def _group(group: Any) -> dict[str, Any]:
    return {
        "name": group.name,
        "states": dict(group.states),
        "start": group.start,
        "stop": group.stop,
        "duration": group.duration,
        "nbytes_total": group.nbytes_total,
    }


def _of_json(value: Any) -> Any:
    """Return what a client told of its collections, with text for what JSON does not have."""
    if isinstance(value, dict):
        return {str(key): _of_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_of_json(part) for part in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _line(source: Any) -> dict[str, Any]:
    return {
        "code": source.code,
        "filename": source.filename,
        "line_in_file": source.lineno_frame,
        "line_in_code": source.lineno_relative,
    }


async def beat(dask_worker: Any = None) -> bool:
    """Make a worker send its measurements now; False for a worker that has none."""
    if not hasattr(dask_worker, "heartbeat"):
        return False
    while getattr(dask_worker, "heartbeat_active", False):  # older releases send one at a time
        await asyncio.sleep(0.002)
    await dask_worker.heartbeat()
    return True


NOBODY = ""
"""Label of work that belongs to no span."""

DEFAULT_SPAN = "default"
"""Label of graphs outside of spans, which dask puts into a span of this name."""

EXTENSION = "spans"

KEY, TASK, GRAPH, OFFLOADED = "key", "ts", "annotations", "offloaded"
"""Local variables that tell whose work a function does; the last stands for the graph under way."""

SPAN_SOURCES: Mapping[str, str] = {
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


class SpanAttribution:
    """Tells the label of a stretch of work: the ID of a span, `NOBODY` or `DEFAULT`."""

    def __init__(self, scheduler: Any, codes: Mapping[str, CodeType]) -> None:
        """Look at a scheduler that has the extension for spans.

        Args:
            codes: code of the functions in `SPAN_SOURCES`, as far as this release has them.
        """
        self.scheduler = scheduler
        self.spans: Mapping[str, Any] = scheduler.extensions[EXTENSION].spans
        self.names: dict[str, tuple[str, ...]] = {NOBODY: (), DEFAULT_SPAN: (DEFAULT_SPAN,)}
        ways: Mapping[str, Callable[[FrameType], str | None]] = {
            KEY: self._of_key,
            TASK: self._of_task,
            GRAPH: self._of_graph,
            OFFLOADED: lambda frame: under_way.get(),
        }
        self.stretches = {id(code): ways[SPAN_SOURCES[name]] for name, code in codes.items()}
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
        names = frame.f_locals
        task = names.get(TASK)  # of a task that is being forgotten, nothing else knows
        if task is None:
            task = self.scheduler.tasks.get(names[KEY])
        return None if task is None else task.group.span_id

    def _of_task(self, frame: FrameType) -> str | None:
        label: str | None = frame.f_locals[TASK].group.span_id
        return label

    def _of_graph(self, frame: FrameType) -> str:
        span = (frame.f_locals[GRAPH] or {}).get("span")
        label: str = span["ids"][-1] if span else DEFAULT_SPAN
        if span:
            self.names[label] = tuple(span["name"])
        under_way.set(label)
        return label

    def name_of(self, label: str) -> tuple[str, ...]:
        """Return the name of a span; dask puts some tasks into another span than asked for."""
        span = self.spans.get(label)
        return self.names.get(label, (label,)) if span is None else tuple(span.name)

    def tasks(self) -> dict[tuple[str, ...], int]:
        """Return how many tasks came to the spans of each name since this object was made."""
        counts: dict[tuple[str, ...], int] = {}
        for label, tasks in self._tasks_by_span().items():
            if more := tasks - self.before.get(label, 0):
                name = self.name_of(label)
                counts[name] = counts.get(name, 0) + more
        return counts

    def record(self, labels: list[str]) -> dict[str, Any]:
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


def attribution_in(scheduler: Any) -> SpanAttribution | None:
    """Return what tells whose work a scheduler does; None if it knows no spans, or is none."""
    extension = (getattr(scheduler, "extensions", None) or {}).get(EXTENSION)
    if not hasattr(extension, "spans"):  # a worker's extension of this name has none
        return None
    codes = {name: code for name in SPAN_SOURCES for code in codes_of([name])}
    return SpanAttribution(scheduler, codes)
