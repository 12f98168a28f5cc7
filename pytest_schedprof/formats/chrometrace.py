"""Reader of Chrome traces, as viztracer dumps its buffer.

Real files have three peculiarities: C functions have no file; under `log_async` each task has an
artificial thread, whose name comes after the events and not before them; and there are events of
other threads, which do not count as costs of the scheduler's loop.
"""

from __future__ import annotations

import builtins
import gzip
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.model.profile import CodeLocation, Function, Namer, Stack

MICROSECOND = 1e-6
GZIP = b"\x1f\x8b"
LINE = re.compile("[0-9]{1,9}")
CALL, MARK, METADATA = "X", "i", "M"
"""Kinds of events that are read: a call with its duration, an instant, the name of a thread."""


class _Event(msgspec.Struct, gc=False):
    ph: str
    # Raw keeps a name as a slice of the file. Equal names are equal bytes, so each distinct name
    # is decoded once. That takes 0.3 s for a million events; strings would take 1.1 s.
    name: msgspec.Raw
    tid: int = 0
    ts: float = 0.0
    dur: float = 0.0


class _Metadata(msgspec.Struct):
    overflow: bool = False


class _Anything(msgspec.Struct):
    """Any JSON object; its content is only checked to be JSON."""


class _File(msgspec.Struct):
    traceEvents: list[_Event]  # noqa: N815
    viztracer_metadata: _Metadata


def is_json(content: bytes) -> bool:
    """Whether the bytes are a JSON object: much faster to tell than to read it."""
    try:
        msgspec.json.decode(content, type=_Anything)
    except UNREADABLE:
        return False
    return True


_CONTROLS = bytes(range(32))
_TAMED = bytes(32 if chr(code).isspace() else ord("?") for code in _CONTROLS)
_AFTER = rb'\},\{"p|\}\], ?"|\}\}|,"args":\{|,"s":"'
"""What follows a name in viztracer's files."""

_NAME = re.compile(rb'("dur":[0-9.]+,"name":")(.*?)(?="(?:' + _AFTER + rb"))", re.DOTALL)
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|["\\]')
"""A whole escape of JSON, or what lacks one. Whole ones are taken first, so that none is read from
its middle."""


def unpacked(content: bytes) -> bytes:
    """Return a trace as plain text, whether or not it is compressed with gzip."""
    try:
        return gzip.decompress(content) if content.startswith(GZIP) else content
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"schedprof: a trace cannot be decompressed: {error}") from error


def mended(content: bytes) -> bytes:
    """Return a trace of viztracer as valid JSON: it writes names as they are.

    A function that `exec` made, or a thread, may have quotes and control characters in its name.
    """
    if is_json(content):
        return content
    tame = content.translate(bytes.maketrans(_CONTROLS, _TAMED))
    return _NAME.sub(_escaped, tame)


def _escaped(name: re.Match[bytes]) -> bytes:
    return name[1] + _ESCAPE.sub(
        lambda escape: escape[0] if escape[0][1:] else b"\\" + escape[0], name[2]
    )


def read_trace(content: bytes, namer: Namer) -> tuple[dict[Function, dict[str, float]], bool]:
    """Read the seconds of every function on the thread that has the marks of a recording.

    Also tell whether the buffer was full, so that the beginning is missing.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    calls, functions, has_overflowed = _read(content, namer)
    return _costs(calls, functions), has_overflowed


def read_times(content: bytes, namer: Namer) -> dict[Stack, float]:
    """Read the microseconds that were spent in each stack itself, on that thread.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    calls, functions, _ = _read(content, namer)
    nodes = zip(*_nodes(calls, functions), strict=True)
    return {stack: time for stack, time in nodes if time > 0}


def _read(content: bytes, namer: Namer) -> tuple[list[_Event], dict[bytes, Function], bool]:
    """Return the calls, the function of each name, and whether the beginning is missing."""
    try:
        file = msgspec.json.decode(content, type=_File)
        calls = _calls(file.traceEvents)
        functions = _named({bytes(call.name) for call in calls}, namer)
    except UNREADABLE as error:
        raise FormatError(
            f"schedprof: not a trace of viztracer: {error} ({len(content)} bytes)"
        ) from error
    return calls, functions, file.viztracer_metadata.overflow


def _calls(events: Sequence[_Event]) -> list[_Event]:
    """Return the calls on the marked thread and in its tasks, in the order in which they ended."""
    marked = next((event.tid for event in reversed(events) if event.ph == MARK), None)
    if marked is None:
        raise FormatError(
            "schedprof: not a trace of this package: no mark in it says which thread was recorded"
        )
    threads = {event.tid for event in takewhile(lambda event: event.ph == METADATA, events)}
    others = threads - {marked}
    return [event for event in events if event.ph == CALL and event.tid not in others]


def _named(raws: Iterable[bytes], namer: Namer) -> dict[bytes, Function]:
    """Return the function of each raw name; the namer is called once for all."""
    texts = {raw: msgspec.json.decode(raw, type=str) for raw in sorted(raws)}
    places = {raw: place for raw, text in texts.items() if (place := _place(text))}
    names = dict(zip(places, namer(list(places.values())), strict=True))
    return {raw: names.get(raw) or _of_c(text) for raw, text in texts.items()}


def _place(text: str) -> CodeLocation | None:
    """Parse `Class.method (/path/to/file.py:12)`; return None for a C function."""
    name, bracket, rest = text.partition(" (")
    file, _, line = rest.removesuffix(")").rpartition(":")
    return (file, name, int(line)) if bracket and LINE.fullmatch(line) else None


def _of_c(text: str) -> Function:
    """Name a C function: `module.function`, `module.Type.method`, or `type.method` if built in."""
    head, _, rest = text.partition(".")
    if not rest or (hasattr(builtins, head) and head != "builtins"):
        return f"builtins:{text}"
    return f"{head}:{rest}"


def _costs(
    calls: Sequence[_Event], functions: Mapping[bytes, Function]
) -> dict[Function, dict[str, float]]:
    """Sum the seconds of each function with its callees (recursion counted once) and without."""
    stacks, own = _nodes(calls, functions)
    costs: dict[Function, dict[str, float]] = {}
    for stack, time in zip(stacks, own, strict=True):
        for function in set(stack):
            cost = costs.setdefault(function, {"seconds": 0.0, "self_seconds": 0.0})
            cost["seconds"] += time * MICROSECOND
        costs[stack[-1]]["self_seconds"] += time * MICROSECOND
    for cost in costs.values():  # a rounding error must not make the own one negative
        cost["self_seconds"] = max(cost["self_seconds"], 0.0)
    return costs


def _nodes(
    calls: Sequence[_Event], functions: Mapping[bytes, Function]
) -> tuple[list[Stack], list[float]]:
    """Return all stacks, and the microseconds of each itself.

    Calls are in the order in which they ended. So in reverse order each call comes after its
    callers, and a call that began later than another cannot be its caller.
    """
    numbers: dict[tuple[int, Function], int] = {}
    own: list[float] = [0.0]
    """Of each node; node 0 is above all calls."""
    callers: list[tuple[float, int]] = []
    for call in reversed(calls):
        while callers and call.ts < callers[-1][0]:
            callers.pop()
        above = callers[-1][1] if callers else 0
        node = numbers.setdefault((above, functions[bytes(call.name)]), len(own))
        if node == len(own):
            own.append(0.0)
        own[node] += call.dur
        own[above] -= call.dur
        callers.append((call.ts, node))
    stacks: list[Stack] = [()]
    for above, function in numbers:  # in the order of their numbers: callers before callees
        stacks.append((*stacks[above], function))
    return stacks[1:], own[1:]
