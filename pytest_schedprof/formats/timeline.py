"""Writer of Chrome traces made of samples: what was on the stack, sample by sample.

Time in the trace is that of the samples: what a profiler left out, as idle threads, takes none.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import msgspec

from pytest_schedprof.formats.speedscope import Samples, SpeedscopeFile
from pytest_schedprof.formats.stays import label_of, stays

MICROSECONDS = 1e6


def write_timeline(file: SpeedscopeFile) -> bytes:
    """Write a trace with one track for each thread, for Perfetto or chrome://tracing."""
    labels = [label_of(frame) for frame in file.frames]
    stacks = [[labels[frame] for frame in stack] for stack in file.stacks]
    events = [
        event
        for number, thread in enumerate(file.threads, start=1)
        for event in _thread(number, thread, stacks)
    ]
    return msgspec.json.encode({"traceEvents": events, "displayTimeUnit": "ms"})


def _thread(number: int, thread: Samples, stacks: list[list[str]]) -> Iterator[dict[str, Any]]:
    """Yield a thread's name, and its frames in the order in which they began, callers first."""
    place = {"pid": 1, "tid": number}
    yield {"ph": "M", "name": "thread_name", "args": {"name": thread.thread}, **place}
    runs = ((stacks[index], sum(1 for _ in same)) for index, same in groupby(thread.stacks))
    for stay in sorted(stays(runs), key=lambda stay: (stay.start, stay.depth)):
        # Start and end are rounded, not the duration, so that a callee never outlasts its caller.
        start, end = (round(at * thread.seconds * MICROSECONDS) for at in (stay.start, stay.end))
        yield {"ph": "X", "name": stay.label, "ts": start, "dur": end - start, **place}
