"""Reader of Chrome traces, as viztracer dumps its buffer.

Real files hold three oddities: functions of C have no file; the made-up thread of each task
under `log_async`, which is told from a thread by its name coming after the events; and the
events of other threads, which have no part in what the scheduler's loop costs.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats.json import UNREADABLE
from pytest_schedprof.model.profile import Function

Place = tuple[str, str, int]
"""File, name and first line, as a namer takes them."""

MICROSECOND = 1e-6
LINE = re.compile("[0-9]{1,9}")
CALL, MARK, METADATA = "X", "i", "M"
"""Kinds of events that are read: a call with its duration, an instant, the name of a thread."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What the functions on the marked thread cost."""

    functions: dict[Function, dict[str, float]]
    overflowed: bool
    """Whether the buffer was full, so that the beginning is missing."""


class _Event(msgspec.Struct, gc=False):
    ph: str
    # Raw keeps a name as a slice of the file: equal names are equal bytes, so each distinct
    # one is decoded once. That takes 0.3 s for a million events where strings take 1.1 s.
    name: msgspec.Raw
    tid: int = 0
    ts: float = 0.0
    dur: float = 0.0


class _Metadata(msgspec.Struct):
    overflow: bool = False


class _File(msgspec.Struct):
    traceEvents: list[_Event]  # noqa: N815
    viztracer_metadata: _Metadata


def read_trace(content: bytes, namer: Callable[[list[Place]], Sequence[Function]]) -> Trace:
    """Seconds of every function on the thread that holds the marks of a recording.

    Raises:
        FormatError: if the bytes are no such file.
    """
    try:
        file = msgspec.json.decode(content, type=_File)
        calls = _calls(file.traceEvents)
        functions = _named({bytes(call.name) for call in calls}, namer)
    except UNREADABLE as error:
        raise FormatError(
            f"schedprof: not a trace of viztracer: {error} ({len(content)} bytes); "
            "the disk where the scheduler runs may be full"
        ) from error
    return Trace(_costs(calls, functions), file.viztracer_metadata.overflow)


def _calls(events: Sequence[_Event]) -> list[_Event]:
    """The calls on the marked thread and in its tasks, in the order in which they ended."""
    marked = next((event.tid for event in reversed(events) if event.ph == MARK), None)
    if marked is None:
        raise FormatError(
            "schedprof: not a trace of this package: no mark in it says which thread was recorded"
        )
    threads = {event.tid for event in takewhile(lambda event: event.ph == METADATA, events)}
    others = threads - {marked}
    return [event for event in events if event.ph == CALL and event.tid not in others]


def _named(
    raws: Iterable[bytes], namer: Callable[[list[Place]], Sequence[Function]]
) -> dict[bytes, Function]:
    """The identity of each name; whoever names the places is asked once for all."""
    texts = {raw: msgspec.json.decode(raw, type=str) for raw in sorted(raws)}
    places = {raw: place for raw, text in texts.items() if (place := _place(text))}
    names = dict(zip(places, namer(list(places.values())), strict=True))
    return {raw: names.get(raw) or _of_c(text) for raw, text in texts.items()}


def _place(text: str) -> Place | None:
    """Of `Class.method (/path/to/file.py:12)`; None for a function of C."""
    name, bracket, rest = text.partition(" (")
    file, _, line = rest.removesuffix(")").rpartition(":")
    return (file, name, int(line)) if bracket and LINE.fullmatch(line) else None


def _of_c(text: str) -> Function:
    """Of `module.function`, `module.Type.method`, or `type.method` of a type that is built in."""
    head, _, rest = text.partition(".")
    if not rest or (hasattr(builtins, head) and head != "builtins"):
        return f"builtins:{text}"
    return f"{head}:{rest}"


def _costs(
    calls: Sequence[_Event], functions: Mapping[bytes, Function]
) -> dict[Function, dict[str, float]]:
    """Seconds with callees, those of a recursion once, and without.

    Calls come in the order in which they ended, so from the last to the first each one comes
    after all that it was called by; what began later than a call cannot have called it.
    """
    inclusive: defaultdict[Function, float] = defaultdict(float)
    own: defaultdict[Function, float] = defaultdict(float)
    active: Counter[Function] = Counter()
    callers: list[tuple[float, Function]] = []
    for call in reversed(calls):
        since, lasted = call.ts, call.dur * MICROSECOND
        while callers and since < callers[-1][0]:
            active[callers.pop()[1]] -= 1
        function = functions[bytes(call.name)]
        own[function] += lasted
        if callers:
            own[callers[-1][1]] -= lasted
        if not active[function]:
            inclusive[function] += lasted
        active[function] += 1
        callers.append((since, function))
    return {name: _row(inclusive[name], own[name]) for name in inclusive}


def _row(seconds: float, own: float) -> dict[str, float]:
    """Sums of differences may fall short of nothing by a rounding error."""
    return {"seconds": seconds, "self_seconds": max(own, 0.0)}
