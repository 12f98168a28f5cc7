"""Several files of one kind as one: a test leaves one for each segment of its window."""

from __future__ import annotations

import gzip
import pstats
import tempfile
import zlib
from array import array
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats.json import UNREADABLE
from pytest_schedprof.formats.speedscope import Frame, Samples, SpeedscopeFile, read_speedscope

GZIP = b"\x1f\x8b"


def join_samples(contents: Sequence[bytes]) -> SpeedscopeFile:
    """Threads of all files beside one another.

    Raises:
        FormatError: if the bytes are no such files.
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
    """Events one after the other: all traces have the clock of their machine.

    Raises:
        FormatError: if the bytes are no Chrome traces.
    """
    try:
        plain = [gzip.decompress(each) if each.startswith(GZIP) else each for each in contents]
        if len(plain) == 1:
            return plain[0]
        events = [msgspec.json.decode(each, type=_Trace).traceEvents for each in plain]
    except (*UNREADABLE, OSError, EOFError, zlib.error) as error:
        raise FormatError(f"schedprof: not a Chrome trace: {error}") from error
    return msgspec.json.encode({"traceEvents": [event for each in events for event in each]})


class _Trace(msgspec.Struct):
    traceEvents: list[msgspec.Raw]  # noqa: N815


def join_stats(contents: Sequence[bytes]) -> bytes:
    """Calls and seconds added up.

    Raises:
        FormatError: if the bytes are no files of cProfile.
    """
    if len(contents) == 1:
        return contents[0]
    with tempfile.TemporaryDirectory(prefix="schedprof-") as name:
        paths = [Path(name) / str(number) for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        try:
            pstats.Stats(*map(str, paths)).dump_stats(Path(name) / "joined")
        except (ValueError, EOFError, TypeError, AttributeError) as error:
            raise FormatError(f"schedprof: not a pstats file: {error}") from error
        return (Path(name) / "joined").read_bytes()
