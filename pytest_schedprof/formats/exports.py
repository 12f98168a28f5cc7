"""Table of the formats that a test's artifacts can be turned into."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.formats.chrometrace import unpacked
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
    plain = [unpacked(content) for content in contents]
    try:
        events = [msgspec.json.decode(trace, type=_Trace).traceEvents for trace in plain]
    except UNREADABLE as error:
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
            mine = tuple(name for name in names if name.endswith(f".{artifact.ending}"))
            if artifact.kind == kind and mine:
                return Export(make, mine)
    return None


def backends_for(form: str, known: Iterable[BackendFacts]) -> list[str]:
    """Return the backends whose recordings a format can be made of, by rank."""
    return recommended(
        backend
        for backend in known
        if any(artifact.kind in EXPORTS[form] for artifact in backend.artifacts)
    )
