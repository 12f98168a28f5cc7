"""Tests of reading Speedscope files, as py-spy writes them and damaged ones."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats.speedscope import (
    Frame,
    SpeedscopeFile,
    holds_frame,
    name_frames,
    read_speedscope,
    without_process,
)
from pytest_schedprof.model.profile import SampleProfile

FRAMES: list[dict[str, Any]] = [
    {"name": "run", "file": "/venv/asyncio/runners.py", "line": 190, "col": None},
    {"name": "_transition", "file": "/venv/distributed/scheduler.py", "line": 2001, "col": None},
    {"name": "_transition", "file": "/venv/distributed/scheduler.py", "line": 2040, "col": None},
    {"name": "<native>", "file": None, "line": None, "col": None},
]


def document(*threads: tuple[str, list[list[int]]]) -> dict[str, Any]:
    """A file as py-spy 0.4 writes it, including the fields that this reader ignores."""
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "profiles": [
            {
                "type": "sampled",
                "name": name,
                "unit": "seconds",
                "startValue": 0.0,
                "endValue": 1.0,
                "samples": samples,
                "weights": [0.01] * len(samples),
            }
            for name, samples in threads
        ],
        "shared": {"frames": FRAMES},
        "activeProfileIndex": None,
        "exporter": "py-spy@0.4.0",
        "name": "py-spy profile",
    }


def read(content: object) -> SpeedscopeFile:
    return read_speedscope(json.dumps(content).encode())


def samples_of(file: SpeedscopeFile) -> list[tuple[str, list[tuple[int, ...]], int]]:
    """Threads with their stacks resolved, and their number of empty samples."""
    return [
        (thread.thread, [file.stacks[index] for index in thread.stacks], thread.empty)
        for thread in file.threads
    ]


def profile_of(file: SpeedscopeFile) -> SampleProfile:
    """A profile with functions named by the last part of the file, without the line."""

    def namer(places: list[tuple[str, str, int]]) -> list[str]:
        return [f"{path.rpartition('/')[2]}:{name}" for path, name, _ in places]

    return name_frames(file, namer, backend="pyspy", mode="gil")


def test_all_frames_are_named_at_once_with_blanks_for_what_is_unknown() -> None:
    calls: list[list[tuple[str, str, int]]] = []

    def namer(places: list[tuple[str, str, int]]) -> list[str]:
        calls.append(places)
        return [name for _, name, _ in places]

    name_frames(read(document(("a", [[0], [3]]))), namer, backend="pyspy", mode="")
    assert calls == [[(frame["file"] or "", frame["name"], frame["line"] or 0) for frame in FRAMES]]


def test_one_stack_written_in_two_ways_is_one_stack_of_the_profile() -> None:
    text = json.dumps(document(("a", [[0, 1], [0, 1]]))).replace("[0, 1]", "[ 0 ,1 ]", 1)
    profile = profile_of(read_speedscope(text.replace(" ,", "\r\n,").encode()))
    assert len(profile.stacks) == 1
    assert profile.threads[0].samples.tolist() == [0, 0]


def test_a_file_cut_off_anywhere_is_recognised() -> None:
    content = json.dumps(document(("a", [[0, 1], []]))).encode()
    read_speedscope(content)
    for length in range(len(content)):
        with pytest.raises(FormatError, match="not a speedscope file"):
            read_speedscope(content[:length])


PLAIN = document(("THREAD", [[0]]))
EVENTED = {"type": "evented", "name": "b", "events": []}
NO_SPEEDSCOPE = "not a speedscope file"


OTHER_JSON: list[object] = [
    None,
    [],
    "text",
    {},
    {"profiles": []},
    {"shared": {"frames": []}},
    {"shared": {"frames": [{"line": 3}]}, "profiles": []},
    {"shared": {"frames": [{"name": 3}]}, "profiles": []},
    {"shared": {"frames": []}, "profiles": {}},
    {"shared": {"frames": []}, "profiles": [{"type": "sampled"}]},
    {"shared": {"frames": []}, "profiles": [{"name": None, "type": "sampled"}]},
    {
        "shared": {"frames": []},
        "profiles": [{"name": "a", "type": "sampled", "samples": 3}],
    },
]


def dumped(content: object) -> bytes:
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *[
            (dumped(document(("a", [[0], [0, frame]]))), rf"\[0, {frame}\].* it has 4")
            for frame in (4, -1, 10**30)
        ],
        *[
            (dumped(document(("a", [sample]))), "speedscope sample")  # type: ignore[list-item]
            for sample in [0, "0", None, {"0": 1}, [0.5], ["0"], [[0]], [None], [True]]
        ],
        *[(dumped(content), NO_SPEEDSCOPE) for content in OTHER_JSON],
        (dumped(PLAIN | {"profiles": [EVENTED]}), "'b' is 'evented'; only 'sampled'"),
        (dumped(PLAIN)[:100], r"\(100 bytes\); the profiler may have been cut off while writing"),
        *[(content, "schedprof") for content in (b"", b"\x00", b"\x1f\x8b\x08", b"[" * 100_000)],
        (dumped(PLAIN).replace(b"THREAD", b"\xff\xfe"), "schedprof"),
        (dumped(PLAIN).replace(b"_transition", b"\xe9"), "schedprof"),
        (dumped(PLAIN).replace(b"[[0]]", b"[" * 100_000), "schedprof"),
        (json.dumps(PLAIN).encode("utf-16"), "schedprof"),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_what_is_no_file_of_samples_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_speedscope(content)


def _check_outcome(content: bytes) -> None:
    try:
        file = read_speedscope(content)
    except FormatError:
        return
    profile_of(file)


@given(st.binary())
def test_any_bytes_give_a_file_or_a_format_error(content: bytes) -> None:
    _check_outcome(content)


@settings(max_examples=500)
@given(st.data())
def test_a_damaged_file_gives_a_file_or_a_format_error(data: st.DataObject) -> None:
    content = bytearray(json.dumps(document(("a", [[0, 1], []]), ("é", [[2]]))).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    _check_outcome(bytes(content))


THREADS = st.lists(
    st.tuples(st.text(max_size=5), st.lists(st.lists(st.integers(0, len(FRAMES) - 1), max_size=6))),
    max_size=4,
)


@given(THREADS, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_what_was_written_is_read(
    threads: list[tuple[str, list[list[int]]]], indent: int | str | None, ascii_only: bool
) -> None:
    text = json.dumps(document(*threads), indent=indent, ensure_ascii=ascii_only)
    file = read_speedscope(text.encode())
    assert samples_of(file) == [
        (name, [tuple(sample) for sample in samples if sample], samples.count([]))
        for name, samples in threads
    ]
    assert file.frames == [Frame(frame["name"], frame["file"], frame["line"]) for frame in FRAMES]
    assert len(set(file.stacks)) == len(file.stacks)
    named = profile_of(file)
    assert named.empty_samples == sum(samples.count([]) for _, samples in threads)
    names = [f"{(frame['file'] or '').rpartition('/')[2]}:{frame['name']}" for frame in FRAMES]
    assert [[named.stacks[index] for index in thread.samples] for thread in named.threads] == [
        [tuple(names[frame] for frame in sample) for sample in samples if sample]
        for _, samples in threads
    ]
    assert len(set(named.stacks)) == len(named.stacks)


def test_frame_is_found_by_its_name_and_its_file() -> None:
    content = json.dumps(document(("a", [[0, 1]]))).encode()
    assert holds_frame(content, "run", "/venv/asyncio/runners.py")
    assert not holds_frame(content, "run", "/home/runners.py")
    assert not holds_frame(content, "asyncio", "/venv/asyncio/runners.py")
    assert not holds_frame(content[:-20], "run", "/venv/asyncio/runners.py")


@given(st.integers(1, 10**6), st.lists(st.integers(1, 10**6), max_size=5))
def test_the_threads_of_one_process_are_left_out(pid: int, others: list[int]) -> None:
    names = [f'Process {other} Thread {other} "MainThread"' for other in (pid, *others)]
    profiles = [{"type": "sampled", "name": name, "samples": []} for name in names]
    content = msgspec.json.encode({"shared": {"frames": []}, "profiles": profiles, "other": 1})
    kept = msgspec.json.decode(without_process(content, pid))
    assert kept["profiles"] == [
        p for p, n in zip(profiles, (pid, *others), strict=True) if n != pid
    ]
    assert (kept["shared"], kept["other"]) == ({"frames": []}, 1)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"profiles": 1}', b'{"profiles": [{}]}'])
def test_a_file_that_is_none_is_left_to_its_reader(content: bytes) -> None:
    assert without_process(content, 1) == content
