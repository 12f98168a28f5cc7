"""Tests of damaged files of profilers: they are read, or refused by an error of our own."""

from __future__ import annotations

import gzip
import json
import pstats
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from mutations import changed_bytes, changed_value, speedscope

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats.chrometrace import mended, read_trace
from pytest_schedprof.formats.counted import read_counts, with_more
from pytest_schedprof.formats.exports import EXPORTS
from pytest_schedprof.formats.pictures import write_flamegraph
from pytest_schedprof.formats.pstats import read_costs, write_pstats
from pytest_schedprof.formats.speedscope import name_frames, read_speedscope
from pytest_schedprof.model.backend import CALLS, SPEEDSCOPE, TRACE, FileKind
from pytest_schedprof.model.profile import CodeLocation

CASES = 150

T = TypeVar("T")

STATS = json.dumps(
    {
        "schedprof_cprofile": 1,
        "functions": [
            [
                ["/src/a.py", 3, "f"],
                [1, 2, 0.1, 0.2],
                [[["/src/a.py", 1, "\xe9"], [1, 1, 0.1, 0.1]]],
            ],
            [["~", 0, "<built-in len>"], [1, 2**40, 0.1, 0.2], []],
        ],
    }
).encode()
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
    "stats": (STATS, lambda content: read_costs(content, namer)),
    "counts": (COUNTS, read_counts),
    "counts with more": (
        COUNTS,
        lambda content: with_more(content, {"a:b": {"calls": 1}}, {"a:b": "0f"}),
    ),
}
CONTENTS: dict[FileKind, bytes] = {SPEEDSCOPE: speedscope(), TRACE: TRACE_FILE, CALLS: STATS}
MAKERS = {
    f"{form} {number}": (CONTENTS[kind], make)
    for form, kinds in EXPORTS.items()
    for number, (kind, make) in enumerate(kinds.items())
}


def damaged(content: bytes) -> list[bytes]:
    contents = [b"", content[: len(content) // 2]]
    for seed in range(CASES):
        chance = random.Random(seed)
        is_json = content.startswith(b"{") and seed % 2
        contents.append((changed_value if is_json else changed_bytes)(chance, content))
    return contents


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
    said = [complaint(read, file) for file in damaged(content)]
    assert all(text.startswith("schedprof: ") for text in said if text)
    assert all(map(str.isprintable, said))


@pytest.mark.parametrize("name", MAKERS)
def test_a_damaged_file_is_exported_or_refused(name: str) -> None:
    content, make = MAKERS[name]
    assert make([content])
    alone = [complaint(make, [file]) for file in damaged(content)]
    joined = [complaint(make, [file, content]) for file in damaged(content)[::3]]
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


def test_what_cprofile_measured_of_several_segments_is_added_up(tmp_path: Path) -> None:
    (tmp_path / "twice.pstats").write_bytes(write_pstats([STATS, STATS]))
    stats = pstats.Stats(str(tmp_path / "twice.pstats"))
    assert stats.stats == {  # type: ignore[attr-defined]
        ("/src/a.py", 3, "f"): (2, 4, 0.2, 0.4, {("/src/a.py", 1, "\xe9"): (2, 2, 0.2, 0.2)}),
        ("~", 0, "<built-in len>"): (2, 2**41, 0.2, 0.4, {}),
    }
