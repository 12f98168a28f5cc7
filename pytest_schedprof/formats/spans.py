"""Reader of what a file of samples tells about spans, in a key that speedscope does not know."""

from __future__ import annotations

from array import array
from dataclasses import replace

import msgspec

from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.model.profile import SampleProfile, SpanName, Thread


class _Spans(msgspec.Struct):
    names: list[tuple[str, ...]]
    samples: list[int]
    """Of each sample, the number of a name."""
    tasks: list[tuple[tuple[str, ...], int]]


class _File(msgspec.Struct):
    schedprof_spans: _Spans | None = None


def by_span(profile: SampleProfile, content: bytes) -> SampleProfile:
    """Tell the stacks of a profile of one thread apart by the span whose work was done."""
    spans = _read(content)
    if spans is None or len(profile.threads) != 1:
        return profile
    (thread,) = profile.threads
    if len(spans.samples) != len(thread.samples):
        return profile
    pairs = [
        (index, spans.names[n]) for index, n in zip(thread.samples, spans.samples, strict=True)
    ]
    numbers: dict[tuple[int, SpanName], int] = {}
    samples = array("q", (numbers.setdefault(pair, len(numbers)) for pair in pairs))
    return replace(
        profile,
        stacks=tuple(profile.stacks[index] for index, _ in numbers),
        threads=(Thread(thread.name, samples),),
        whose=tuple(name for _, name in numbers),
        span_tasks=dict(spans.tasks),
    )


def _read(content: bytes) -> _Spans | None:
    """Return what the file tells, or None: it may be of another writer, or damaged."""
    try:
        spans = msgspec.json.decode(content, type=_File).schedprof_spans
    except UNREADABLE:
        return None
    if spans and all(0 <= number < len(spans.names) for number in spans.samples):
        return spans
    return None
