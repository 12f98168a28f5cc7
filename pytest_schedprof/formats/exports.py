"""Table of the formats that a test's artifacts can be turned into."""

from __future__ import annotations

import gzip
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.formats.pictures import write_collapsed, write_timeline
from pytest_schedprof.formats.pstats import write_pstats
from pytest_schedprof.formats.speedscope import (
    Frame,
    Samples,
    SpeedscopeFile,
    read_speedscope,
    write_speedscope,
)
from pytest_schedprof.model.backend import (
    CALLS,
    SPEEDSCOPE,
    TRACE,
    Artifact,
    BackendFacts,
    FileKind,
    recommended,
)

NANOSECONDS = 1e9

VARINT, BYTES = 0, 2
"""Encodings of a field: as a number, or as bytes after their length."""


def write_pprof(file: SpeedscopeFile) -> bytes:
    """Write the samples of all threads, each with its thread as a label."""
    return gzip.compress(b"".join(_Writer(file).fields()), mtime=0)


class _Writer:
    def __init__(self, file: SpeedscopeFile) -> None:
        self._file = file
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[tuple[int, int], int] = {}

    def fields(self) -> Iterator[bytes]:
        """Yield the fields of a `Profile`; strings come last, when all are known."""
        for number, unit in ((1, ("samples", "count")), (1, ("time", "nanoseconds"))):
            yield _message(number, self._value_type(*unit))
        for thread in self._file.threads:
            label = [_number(1, self._string("thread")), _number(2, self._string(thread.thread))]
            period = round(thread.seconds * NANOSECONDS)
            for index, count in Counter(thread.stacks).items():
                yield _message(2, self._sample(index, (count, count * period), label))
        for number, frame in enumerate(self._file.frames, start=1):
            yield _message(4, self._location(number, frame))
        # Without a system name: pprof would demangle `<lambda>` to an empty string.
        for (name, place), number in self._functions.items():
            yield _message(5, [_number(1, number), _number(2, name), _number(4, place)])
        yield _message(11, self._value_type("time", "nanoseconds"))
        periods = (round(thread.seconds * NANOSECONDS) for thread in self._file.threads)
        yield _number(12, max(periods, default=0))
        yield from (_field(6, text.encode("utf-8", "replace")) for text in self._strings)

    def _value_type(self, kind: str, unit: str) -> list[bytes]:
        return [_number(1, self._string(kind)), _number(2, self._string(unit))]

    def _sample(self, index: int, values: Iterable[int], label: Iterable[bytes]) -> Iterator[bytes]:
        """Yield a sample, its innermost frame first; locations are numbered from one."""
        yield _packed(1, (frame + 1 for frame in reversed(self._file.stacks[index])))
        yield _packed(2, values)
        yield _message(3, label)

    def _location(self, number: int, frame: Frame) -> Iterator[bytes]:
        """Yield a line of code; all lines of one function refer to that function."""
        key = (self._string(frame.name), self._string(frame.file or ""))
        function = self._functions.setdefault(key, len(self._functions) + 1)
        yield _number(1, number)
        yield _message(4, [_number(1, function), _number(2, max(frame.line or 0, 0))])

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))


def _varint(number: int) -> bytes:
    """Encode seven bits in each byte, lowest first; the eighth says that more follow."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | VARINT) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | BYTES) + _varint(len(content)) + content


def _message(field: int, fields: Iterable[bytes]) -> bytes:
    return _field(field, b"".join(fields))


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _field(field, b"".join(map(_varint, values)))


GZIP = b"\x1f\x8b"


def join_samples(contents: Sequence[bytes]) -> SpeedscopeFile:
    """Join speedscope files; the result has the threads of all.

    Raises:
        FormatError: if the bytes are not such files.
    """
    frames: list[Frame] = []
    stacks: list[tuple[int, ...]] = []
    threads: list[Samples] = []
    for file in map(read_speedscope, contents):
        first_frame, first_stack = len(frames), len(stacks)
        frames += file.frames
        stacks += [tuple(frame + first_frame for frame in stack) for stack in file.stacks]
        for thread in file.threads:
            moved = array("q", (index + first_stack for index in thread.stacks))
            threads.append(Samples(thread.thread, moved, thread.empty, thread.seconds))
    return SpeedscopeFile(frames, stacks, threads)


def join_traces(contents: Sequence[bytes]) -> bytes:
    """Join traces by concatenating their events: all have the clock of the same machine.

    Raises:
        FormatError: if the bytes are not Chrome traces.
    """
    try:
        plain = [gzip.decompress(raw) if raw.startswith(GZIP) else raw for raw in contents]
        events = [msgspec.json.decode(trace, type=_Trace).traceEvents for trace in plain]
    except (*UNREADABLE, OSError, EOFError, zlib.error) as error:
        raise FormatError(f"schedprof: not a Chrome trace: {error}") from error
    if len(plain) == 1:
        return plain[0]
    return msgspec.json.encode({"traceEvents": [event for trace in events for event in trace]})


class _Trace(msgspec.Struct):
    traceEvents: list[msgspec.Raw]  # noqa: N815


Make = Callable[[Sequence[bytes]], bytes]
"""Makes a file of one format from the files of a test, one of each segment of its window."""


def _from_samples(write: Callable[[SpeedscopeFile], bytes]) -> Make:
    return lambda contents: write(join_samples(contents))


def _speedscope(contents: Sequence[bytes]) -> bytes:
    """Return one file as it is, once it has been read, and several joined."""
    joined = join_samples(contents)
    return contents[0] if len(contents) == 1 else write_speedscope(joined)


EXPORTS: dict[str, dict[FileKind, Make]] = {
    "speedscope": {SPEEDSCOPE: _speedscope},
    "collapsed": {SPEEDSCOPE: _from_samples(write_collapsed)},
    "pprof": {SPEEDSCOPE: _from_samples(write_pprof)},
    "chrometrace": {TRACE: join_traces, SPEEDSCOPE: _from_samples(write_timeline)},
    "pstats": {CALLS: write_pstats},
}
"""Kinds of artifacts that each format can be made of, the most detailed first."""


class Export(NamedTuple):
    """A function that makes a file, and the artifacts to make it of."""

    make: Make
    names: tuple[str, ...]


def export_of(names: Sequence[str], form: str, artifacts: Iterable[Artifact]) -> Export | None:
    """Return what a format is made of, or None if it cannot be made.

    Args:
        names: of a test's files.
        form: the format, a key of `EXPORTS`.
        artifacts: of the backends that left them, the preferred first.
    """
    known = list(artifacts)
    for kind, make in EXPORTS[form].items():
        for artifact in known:
            ending = f".{artifact.ending}"
            mine = [n for n in names if n.startswith("scheduler.") and n.endswith(ending)]
            if artifact.kind == kind and mine:
                return Export(make, tuple(mine))
    return None


def backends_for(form: str, known: Iterable[BackendFacts]) -> list[str]:
    """Return the backends whose recordings a format can be made of, by rank."""
    return recommended(
        backend for backend in known if any(one.kind in EXPORTS[form] for one in backend.artifacts)
    )
