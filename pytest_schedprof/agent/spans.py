"""Reads the scheduler's spans as plain data, and makes workers send the heartbeats they need."""

from __future__ import annotations

import asyncio
from typing import Any


def tell_spans(ids: list[str], dask_scheduler: Any = None) -> dict[str, Any]:
    """Return these spans, and all of them merged; a body without tasks has none."""
    extension = dask_scheduler.extensions.get("spans")
    if extension is None:
        return {"problem": "the scheduler has no extension for spans"}
    found = [extension.spans[each] for each in ids if each in extension.spans]
    if not found:
        return {"problem": "no task reached the scheduler from where the span was opened"}
    merged = type(found[0]).merge(*found)
    return {"takes": [_plain(each) for each in found], "merged": _plain(merged, children=[])}


def _plain(span: Any, children: Any = None) -> dict[str, Any]:
    below = span.children if children is None else children
    return {
        "name": span.name,
        "id": span.id,
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
        "code": [[_line(each) for each in frames] for frames in span.code],
        "cumulative_worker_metrics": [
            {"name": [str(part) for part in name], "value": value}
            for name, value in span.cumulative_worker_metrics.items()
        ],
        "children": [_plain(each) for each in below],
    }


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
