"""Tests of damaged files of profilers: they are read, or refused by an error of our own."""

from __future__ import annotations

import gzip
import json
import marshal
import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from mutations import changed_bytes, changed_value, speedscope

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats.chrometrace import mended, read_trace
from pytest_schedprof.formats.counts import read_counts, with_more
from pytest_schedprof.formats.exports import EXPORTS
from pytest_schedprof.formats.flamegraph import write_flamegraph
from pytest_schedprof.formats.frames import name_frames
from pytest_schedprof.formats.marshalled import read_marshalled
from pytest_schedprof.formats.pstats import read_pstats
from pytest_schedprof.formats.speedscope import read_speedscope
from pytest_schedprof.model.backend import PSTATS, SPEEDSCOPE, TRACE, FileKind
from pytest_schedprof.model.profile import CodeLocation

CASES = 150

T = TypeVar("T")

STATS = marshal.dumps(
    {
        ("/src/a.py", 3, "f"): (1, 2, 0.1, 0.2, {("/src/a.py", 1, "é"): (1, 1, 0.1, 0.1)}),
        ("~", 0, "<built-in len>"): (1, 2**40, 0.1, 0.2, {}),
    }
)
TRACE_FILE = json.dumps(
    {
        "traceEvents": [
            {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "main"}},
            {"ph": "X", "tid": 1, "ts": 1.0, "dur": 2.0, "name": "f (/src/a.py:1)"},
            {"ph": "X", "tid": 1, "ts": 0.0, "dur": 4.0, "name": "builtins.len"},
            {"ph": "i", "tid": 1, "ts": 5.0, "name": "end"},
        ],
        "viztracer_metadata": {"overflow": False},
    }
).encode()
COUNTS = json.dumps(
    {"schedprof_counts": 1, "python": "3.11", "functions": {"a:b": {"calls": 1}}, "whole": {"x": 2}}
).encode()


def namer(places: Sequence[CodeLocation]) -> list[str]:
    return [f"{file}:{name}" for file, name, _ in places]


def _draw(content: bytes) -> object:
    file = read_speedscope(content)
    return write_flamegraph(file), name_frames(file, namer, backend="", mode="")


READERS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "samples": (speedscope(), _draw),
    "trace": (TRACE_FILE, lambda content: read_trace(mended(content), namer)),
    "stats": (STATS, lambda content: read_pstats(content, namer)),
    "counts": (COUNTS, read_counts),
    "counts with more": (
        COUNTS,
        lambda content: with_more(content, {"a:b": {"calls": 1}}, {"a:b": "0f"}),
    ),
}
CONTENTS: dict[FileKind, bytes] = {SPEEDSCOPE: speedscope(), TRACE: TRACE_FILE, PSTATS: STATS}
MAKERS = {
    f"{form} {number}": (CONTENTS[kind], make)
    for form, kinds in EXPORTS.items()
    for number, (kind, make) in enumerate(kinds.items())
}


def damaged(content: bytes) -> list[bytes]:
    found = [b"", content[: len(content) // 2]]
    for seed in range(CASES):
        chance = random.Random(seed)
        is_json = content.startswith(b"{") and seed % 2
        found.append((changed_value if is_json else changed_bytes)(chance, content))
    return found


def complaint(read: Callable[[T], object], content: T) -> str:
    """Return the message of the error, or nothing if the content could be read."""
    try:
        read(content)
    except FormatError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_read_or_refused(name: str) -> None:
    content, read = READERS[name]
    read(content)
    said = [complaint(read, each) for each in damaged(content)]
    assert all(each.startswith("schedprof: ") for each in said if each)
    assert all(map(str.isprintable, said))


@pytest.mark.parametrize("name", MAKERS)
def test_a_damaged_file_is_exported_or_refused(name: str) -> None:
    content, make = MAKERS[name]
    assert make([content])
    alone = [complaint(make, [each]) for each in damaged(content)]
    joined = [complaint(make, [each, content]) for each in damaged(content)[::3]]
    assert all(map(str.isprintable, alone + joined))


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"x" * 100, gzip.compress(b"")[:15]],
    ids=["empty", "brace", "letters", "gzip"],  # gzip's bytes hold the time
)
def test_a_file_that_is_empty_or_no_such_file_is_not_exported(name: str, content: bytes) -> None:
    with pytest.raises(FormatError):
        MAKERS[name][1]([content])


@pytest.mark.parametrize("weight", [1e308, -1e308, 1e30])
def test_samples_of_impossible_weight_are_refused(weight: float) -> None:
    content = speedscope().replace(b'"endValue": 1', b'"endValue": ' + repr(weight).encode())
    with pytest.raises(FormatError, match="which cannot be"):
        read_speedscope(content)


@pytest.mark.parametrize("version", range(marshal.version + 1))
def test_what_cprofile_writes_is_read_as_the_standard_library_does(version: int) -> None:
    value = {("é\udcff", 2**70, ""): (1, -5, 0.1, float("inf"), {("a" * 300, -(2**40), "b"): (1,)})}
    twice = {("f", 1, "f"): value, ("g", 1, "f"): value}
    content = marshal.dumps(twice, version)
    assert read_marshalled(content) == marshal.loads(content) == twice


def test_a_size_beyond_the_end_of_a_file_takes_neither_time_nor_memory() -> None:
    since = time.perf_counter()
    with pytest.raises(FormatError, match="ends too early"):
        read_pstats(b"{(" + (2**31 - 1).to_bytes(4, "little") + b"0", namer)
    assert time.perf_counter() - since < 1
