"""Joins files of one kind: a test leaves one for each segment of its window."""

from __future__ import annotations

import gzip
import zlib
from array import array
from collections.abc import Sequence

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.formats.speedscope import Frame, Samples, SpeedscopeFile, read_speedscope

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
        for each in file.threads:
            moved = array("q", (index + first_stack for index in each.stacks))
            threads.append(Samples(each.thread, moved, each.empty, each.seconds))
    return SpeedscopeFile(frames, stacks, threads)


def join_traces(contents: Sequence[bytes]) -> bytes:
    """Join traces by concatenating their events: all have the clock of the same machine.

    Raises:
        FormatError: if the bytes are not Chrome traces.
    """
    try:
        plain = [gzip.decompress(each) if each.startswith(GZIP) else each for each in contents]
        events = [msgspec.json.decode(each, type=_Trace).traceEvents for each in plain]
    except (*UNREADABLE, OSError, EOFError, zlib.error) as error:
        raise FormatError(f"schedprof: not a Chrome trace: {error}") from error
    if len(plain) == 1:
        return plain[0]
    return msgspec.json.encode({"traceEvents": [event for each in events for event in each]})


class _Trace(msgspec.Struct):
    traceEvents: list[msgspec.Raw]  # noqa: N815
