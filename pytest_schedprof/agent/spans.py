"""Reads the scheduler's spans as plain data, and makes workers send the heartbeats they need."""

from __future__ import annotations

from typing import Any

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
    # Not `root_spans`: what is open around several tests is older than this one.
    roots = [
        span
        for span in extension.spans.values()
        if span.id not in old and (span.parent is None or span.parent.id in old)
    ]
    return {
        "takes": [_plain(take) for take in takes],
        "merged": _merged(takes),
        "default": [_plain(root) for root in roots if root.name == DEFAULT],
        "all": _merged(roots),
        "tags": _by_tag(extension, takes),
    }


def _by_tag(extension: Any, takes: list[Any]) -> dict[str, Any]:
    """Return the sum of the spans with each tag that the body gave, as dask finds and merges them.

    A span within another one of the same tag is in the sum already. dask's own search leaves it out
    also if the other one is around the test.
    """
    given = {
        span.id: span.name[len(take.name) :] for take in takes for span in take.traverse_spans()
    }
    of_body = [span for span in extension.spans.values() if span.id in given]
    outermost: dict[str, list[Any]] = {}
    for span in sorted(of_body, key=lambda span: len(span.name)):  # sums hang on the order
        for tag in given[span.id]:
            if tag not in given[span.parent.id]:
                outermost.setdefault(tag, []).append(span)
    return {tag: _merged(spans) for tag, spans in outermost.items()}


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
    await dask_worker.heartbeat()
    return True
