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
    count_samples,
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
        (each.thread, [file.stacks[index] for index in each.stacks], each.empty)
        for each in file.threads
    ]


def profile_of(file: SpeedscopeFile) -> SampleProfile:
    """A profile with functions named by the last part of the file, without the line."""

    def namer(places: list[tuple[str, str, int]]) -> list[str]:
        return [f"{path.rpartition('/')[2]}:{name}" for path, name, _ in places]

    return name_frames(file, namer, backend="pyspy", mode="gil")


def test_samples_keep_their_order_and_frames_their_place() -> None:
    file = read(document(("MainThread", [[0, 1], [0], [0, 1], [0, 2]])))
    assert samples_of(file) == [("MainThread", [(0, 1), (0,), (0, 1), (0, 2)], 0)]
    assert file.frames[1] == Frame("_transition", "/venv/distributed/scheduler.py", 2001)
    assert file.frames[3] == Frame("<native>", None, None)


def test_each_distinct_stack_is_stored_once_for_all_threads() -> None:
    file = read(document(("a", [[0, 1]] * 50), ("b", [[0, 1]] * 50)))
    assert file.stacks == [(0, 1)]


def test_samples_without_frames_are_counted_and_left_out() -> None:
    file = read(document(("a", [[], [0], [], [0, 1], []]), ("b", [[]])))
    assert samples_of(file) == [("a", [(0,), (0, 1)], 3), ("b", [], 1)]
    assert profile_of(file).empty_samples == 4


def test_threads_without_a_name_are_kept_apart() -> None:
    file = read(document(("", [[0]]), ("", [[0, 1]]), ("MainThread", [[0]])))
    assert [each.thread for each in file.threads] == ["", "", "MainThread"]
    assert [len(thread.samples) for thread in profile_of(file).threads] == [1, 1, 1]


def test_the_lines_of_one_function_become_one_function() -> None:
    profile = profile_of(read(document(("a", [[0, 1], [0, 2], [0]]))))
    assert profile.stacks == (
        ("runners.py:run", "scheduler.py:_transition"),
        ("runners.py:run",),
    )
    assert profile.threads[0].samples.tolist() == [0, 0, 1]
    assert (profile.backend, profile.mode) == ("pyspy", "gil")


def test_recursion_at_two_lines_stays_recursion() -> None:
    profile = profile_of(read(document(("a", [[1, 2, 1]]))))
    assert profile.stacks == (("scheduler.py:_transition",) * 3,)


def test_whoever_names_the_frames_is_asked_once_for_all_with_blanks_for_what_is_unknown() -> None:
    asked: list[list[tuple[str, str, int]]] = []

    def namer(places: list[tuple[str, str, int]]) -> list[str]:
        asked.append(places)
        return [name for _, name, _ in places]

    name_frames(read(document(("a", [[0], [3]]))), namer, backend="pyspy", mode="")
    assert [(frame["file"] or "", frame["name"], frame["line"] or 0) for frame in FRAMES] == asked[
        0
    ]
    assert len(asked) == 1


def test_a_file_for_human_eyes_reads_the_same() -> None:
    content = document(("a", [[], [0, 1], [0], [0, 1]]), ("", [[0, 2, 3]]))
    plain = read_speedscope(json.dumps(content, separators=(",", ":")).encode())
    for formatted in (json.dumps(content, indent=4), json.dumps(content, indent="\t")):
        file = read_speedscope(formatted.replace("\n", "\r\n").encode())
        assert samples_of(file) == samples_of(plain)
        assert profile_of(file) == profile_of(plain)


def test_one_stack_written_in_two_ways_is_one_stack_of_the_profile() -> None:
    text = json.dumps(document(("a", [[0, 1], [0, 1]]))).replace("[0, 1]", "[ 0 ,1 ]", 1)
    profile = profile_of(read_speedscope(text.encode()))
    assert len(profile.stacks) == 1
    assert profile.threads[0].samples.tolist() == [0, 0]


def test_a_profile_without_threads_is_an_empty_profile() -> None:
    file = read(document())
    assert (file.stacks, file.threads) == ([], [])
    assert profile_of(file).threads == ()


def test_a_file_cut_off_anywhere_is_recognised() -> None:
    content = json.dumps(document(("a", [[0, 1], []]))).encode()
    read_speedscope(content)
    for length in range(len(content)):
        with pytest.raises(FormatError, match="not a speedscope file"):
            read_speedscope(content[:length])


def test_the_message_of_a_file_cut_off_tells_its_size_and_the_likely_cause() -> None:
    content = json.dumps(document(("a", [[0, 1]]))).encode()[:100]
    with pytest.raises(FormatError) as caught:
        read_speedscope(content)
    assert "(100 bytes); the profiler may have been cut off while writing" in str(caught.value)


@pytest.mark.parametrize("frame", [4, -1, 10**30])
def test_a_frame_that_the_file_does_not_hold_is_named(frame: int) -> None:
    with pytest.raises(FormatError) as caught:
        read(document(("a", [[0], [0, frame]])))
    assert f"[0, {frame}]" in str(caught.value)
    assert "it has 4" in str(caught.value)


def test_an_evented_profile_is_refused_by_name() -> None:
    content = document(("a", [[0]]))
    content["profiles"].append({"type": "evented", "name": "b", "events": []})
    with pytest.raises(FormatError, match="'b' is 'evented'; only 'sampled'"):
        read(content)


@pytest.mark.parametrize("sample", [0, "0", None, {"0": 1}, [0.5], ["0"], [[0]], [None], [True]])
def test_a_sample_that_is_no_list_of_frames_is_refused(sample: Any) -> None:
    with pytest.raises(FormatError, match="speedscope sample"):
        read(document(("a", [sample])))


@pytest.mark.parametrize(
    "content",
    [
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
        {"shared": {"frames": []}, "profiles": [{"name": "a", "type": "sampled", "samples": 3}]},
    ],
)
def test_json_of_another_kind_is_refused(content: object) -> None:
    with pytest.raises(FormatError, match="not a speedscope file"):
        read(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        b"\x1f\x8b\x08",
        json.dumps(document(("THREAD", [[0]]))).encode().replace(b"THREAD", b"\xff\xfe"),
        json.dumps(document(("a", [[0]]))).encode().replace(b"_transition", b"\xe9"),
        json.dumps(document(("a", [[0]]))).encode("utf-16"),
    ],
    ids=["nothing", "NUL", "gzip", "no UTF-8 in a thread", "no UTF-8 in a frame", "UTF-16"],
)
def test_bytes_that_are_no_json_are_refused(content: bytes) -> None:
    with pytest.raises(FormatError, match="schedprof"):
        read_speedscope(content)


def test_nesting_without_end_is_refused() -> None:
    head = json.dumps(document(("a", [[0]]))).encode()
    for deep in (b"[" * 100_000, head.replace(b"[[0]]", b"[" * 100_000)):
        with pytest.raises(FormatError, match="schedprof"):
            read_speedscope(deep)


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
    named = profile_of(file)
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


def test_samples_of_a_function_are_counted_once_in_all_threads() -> None:
    content = json.dumps(document(("a", [[0, 1], [0, 1, 2], [0], []]), ("b", [[2]]))).encode()
    assert count_samples(content, "_transition", "/venv/distributed/scheduler.py") == 3
    assert count_samples(content, "run", "/venv/asyncio/runners.py") == 3
    assert count_samples(content, "run", "/home/runners.py") == 0


@given(st.integers(1, 10**6), st.lists(st.integers(1, 10**6), max_size=5))
def test_the_threads_of_one_process_are_left_out(pid: int, others: list[int]) -> None:
    names = [f'Process {each} Thread {each} "MainThread"' for each in (pid, *others)]
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
