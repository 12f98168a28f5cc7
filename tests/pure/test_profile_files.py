"""Tests of profilers' files: what is read, and damaged ones, which are read or refused."""

from __future__ import annotations

import cProfile
import gzip
import json
import pstats
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import changed_bytes, changed_value, speedscope

from pytest_schedprof.agent.cprofile import summed
from pytest_schedprof.agent.recordings import as_json
from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats.chrometrace import mended, read_times, read_trace, unpacked
from pytest_schedprof.formats.counted import read_counts, with_more
from pytest_schedprof.formats.pictures import write_flamegraph
from pytest_schedprof.formats.pstats import read_costs, write_pstats
from pytest_schedprof.formats.speedscope import (
    Frame,
    SpeedscopeFile,
    holds_frame,
    name_frames,
    read_speedscope,
    without_process,
)
from pytest_schedprof.model.profile import CodeLocation, SampleProfile

FRAMES: list[dict[str, Any]] = [
    {"name": "run", "file": "/venv/asyncio/runners.py", "line": 190, "col": None},
    {"name": "_transition", "file": "/venv/distributed/scheduler.py", "line": 2001, "col": None},
    {"name": "_transition", "file": "/venv/distributed/scheduler.py", "line": 2040, "col": None},
    {"name": "<native>", "file": None, "line": None, "col": None},
]


def samples_file(*threads: tuple[str, list[list[int]]]) -> dict[str, Any]:
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


def dumped(content: object) -> bytes:
    return json.dumps(content).encode()


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

    file = read_speedscope(dumped(samples_file(("a", [[0], [3]]))))
    name_frames(file, namer, backend="pyspy", mode="")
    assert calls == [[(frame["file"] or "", frame["name"], frame["line"] or 0) for frame in FRAMES]]


def test_one_stack_written_in_two_ways_is_one_stack_of_the_profile() -> None:
    text = json.dumps(samples_file(("a", [[0, 1], [0, 1]]))).replace("[0, 1]", "[ 0 ,1 ]", 1)
    profile = profile_of(read_speedscope(text.replace(" ,", "\r\n,").encode()))
    assert len(profile.stacks) == 1
    assert profile.threads[0].tolist() == [0, 0]


PLAIN = samples_file(("THREAD", [[0]]))
EVENTED = {"type": "evented", "name": "b", "events": []}
NO_SPEEDSCOPE = "not a speedscope file"


OTHER_JSON: list[object] = [
    None,
    {"profiles": []},
    {"shared": {"frames": []}},
    {"shared": {"frames": [{"line": 3}]}, "profiles": []},
    {"shared": {"frames": []}, "profiles": [{"type": "sampled"}]},
    {
        "shared": {"frames": []},
        "profiles": [{"name": "a", "type": "sampled", "samples": 3}],
    },
]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *[
            (dumped(samples_file(("a", [[0], [0, frame]]))), rf"\[0, {frame}\].* it has 4")
            for frame in (4, -1, 10**30)
        ],
        *[
            (dumped(samples_file(("a", [sample]))), "speedscope sample")  # type: ignore[list-item]
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


THREADS = st.lists(
    st.tuples(st.text(max_size=5), st.lists(st.lists(st.integers(0, len(FRAMES) - 1), max_size=6))),
    max_size=4,
)


@given(THREADS, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_what_was_written_is_read(
    threads: list[tuple[str, list[list[int]]]], indent: int | str | None, ascii_only: bool
) -> None:
    text = json.dumps(samples_file(*threads), indent=indent, ensure_ascii=ascii_only)
    file = read_speedscope(text.encode())
    found = [
        (thread.thread, [file.stacks[index] for index in thread.stacks], thread.empty)
        for thread in file.threads
    ]
    assert found == [
        (name, [tuple(sample) for sample in samples if sample], samples.count([]))
        for name, samples in threads
    ]
    assert file.frames == [Frame(frame["name"], frame["file"], frame["line"]) for frame in FRAMES]
    assert len(set(file.stacks)) == len(file.stacks)
    named = profile_of(file)
    assert named.empty_samples == sum(samples.count([]) for _, samples in threads)
    names = [f"{(frame['file'] or '').rpartition('/')[2]}:{frame['name']}" for frame in FRAMES]
    assert [[named.stacks[index] for index in thread] for thread in named.threads] == [
        [tuple(names[frame] for frame in sample) for sample in samples if sample]
        for _, samples in threads
    ]
    assert len(set(named.stacks)) == len(named.stacks)


def test_frame_is_found_by_its_name_and_its_file() -> None:
    content = json.dumps(samples_file(("a", [[0, 1]]))).encode()
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


LOOP, OTHER, TASK = 11, 12, 7_654_321


def thread(tid: int) -> dict[str, Any]:
    return {"ph": "M", "pid": 11, "tid": tid, "name": "thread_name", "args": {"name": str(tid)}}


def call(name: str, since: float, until: float, tid: int = LOOP) -> dict[str, Any]:
    """A complete event; times are in microseconds."""
    event = {"pid": 11, "tid": tid, "ts": since, "ph": "X", "cat": "fee"}
    return {**event, "dur": until - since, "name": name}


MARK = {"pid": 11, "tid": LOOP, "ts": 0.0, "ph": "i", "cat": "instant", "name": "end", "s": "g"}


def document(*events: dict[str, Any], overflow: bool = False) -> dict[str, Any]:
    """A file as viztracer 1.1 dumps it."""
    named = [{**thread(LOOP), "name": "process_name"}, thread(OTHER), thread(LOOP)]
    return {
        "traceEvents": [*named, *events, MARK],
        "viztracer_metadata": {"overflow": overflow},
    }


def namer(places: Sequence[CodeLocation]) -> list[str]:
    return [f"{file.rpartition('/')[2].removesuffix('.py')}:{name}" for file, name, _ in places]


Trace = tuple[dict[str, dict[str, float]], bool]


def read(*events: dict[str, Any], overflow: bool = False) -> Trace:
    return read_trace(json.dumps(document(*events, overflow=overflow)).encode(), namer)


def microseconds(trace: Trace) -> dict[str, tuple[int, int]]:
    """Time of each function in microseconds, with and without its callees."""
    functions, _ = trace
    return {
        name: (round(costs["seconds"] * 1e6), round(costs["self_seconds"] * 1e6))
        for name, costs in functions.items()
    }


def test_two_places_of_one_name_are_one_function_also_in_a_recursion() -> None:
    trace = read(call("<lambda> (/src/a.py:1)", 1, 8), call("<lambda> (/src/a.py:5)", 0, 10))
    assert microseconds(trace) == {"a:<lambda>": (10, 10)}


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("builtins.len", "builtins:len"),
        ("str.rpartition", "builtins:str.rpartition"),
        ("select.epoll.poll", "select:epoll.poll"),
        ("_thread.lock.acquire", "_thread:lock.acquire"),
        ("maketrans", "builtins:maketrans"),
    ],
)
def test_functions_of_c_have_no_file_and_yet_a_name(name: str, function: str) -> None:
    assert microseconds(read(call(name, 0, 1))) == {function: (1, 1)}


def test_places_are_named_once_and_all_at_once() -> None:
    calls: list[list[tuple[str, str, int]]] = []

    def naming(places: list[tuple[str, str, int]]) -> list[str]:
        calls.append(sorted(places))
        return namer(places)

    names = ["A.f.<locals>.<lambda> (/a (old)/x:y.py:12)", "g (<frozen os>:674)", "builtins.len"]
    events = [call(name, 10 * n, 10 * n + 1) for n, name in enumerate(names * 3)]
    read_trace(json.dumps(document(*events)).encode(), naming)
    assert calls == [[("/a (old)/x:y.py", "A.f.<locals>.<lambda>", 12), ("<frozen os>", "g", 674)]]


def test_only_calls_in_the_thread_of_the_loop_and_its_tasks_cost_time() -> None:
    start = {**call("f (/src/a.py:1)", 1, 1), "ph": "B"}  # it did not return
    counter = {"ph": "C", "tid": LOOP, "ts": 1.5, "name": "gc", "args": {"collected": 3}}
    events = (
        call("coroutine (/src/a.py:1)", 2, 5, TASK),
        call("waits (/src/b.py:1)", 0, 90, OTHER),
        counter,
        start,
        call("run (/src/loop.py:1)", 1, 10),
        thread(TASK),
    )
    trace = read(*events)
    assert microseconds(trace) == {"a:coroutine": (3, 3), "loop:run": (9, 6)}
    assert not trace[1]
    assert read(overflow=True) == ({}, True)


def test_a_trace_without_a_mark_is_refused() -> None:
    content = json.dumps(document(call("f (/a.py:1)", 0, 1))).replace('"ph": "i"', '"ph": "C"')
    with pytest.raises(FormatError, match="not a trace of this package"):
        read_trace(content.encode(), namer)


@pytest.mark.parametrize(
    ("content", "read", "words"),
    [
        (samples_file(("a", [[0, 1], []])), read_speedscope, "not a speedscope file"),
        (
            document(call("é (/src/a.py:1)", 0, 1)),
            lambda content: read_trace(content, namer),
            "not a trace of viztracer",
        ),
    ],
)
def test_a_file_cut_off_anywhere_is_recognised(
    content: Any, read: Callable[[bytes], object], words: str
) -> None:
    whole = json.dumps(content).encode()
    read(whole)
    for length in range(len(whole)):
        with pytest.raises(FormatError, match=words):
            read(whole[:length])


@dataclass
class Node:
    """A call with its callees."""

    name: str
    gap: int
    """Microseconds before the call begins and after it ends."""
    callees: list[Node] = field(default_factory=list)

    def events(self, since: int) -> Iterator[dict[str, Any]]:
        """Yield the events in the order in which they end; the last one is this call itself."""
        now = since + self.gap
        for callee in self.callees:
            for event in callee.events(now):
                yield event
            now = int(event["ts"] + event["dur"]) + callee.gap
        yield call(f"{self.name} (/src/m.py:1)", since + self.gap, now + 1)


def times_of_stacks(root: Node) -> dict[tuple[str, ...], int]:
    """Compute the time of each stack by walking down the tree with the list of callers."""
    own: defaultdict[tuple[str, ...], int] = defaultdict(int)

    def walk(node: Node, callers: tuple[str, ...]) -> int:
        (*_, event) = node.events(0)
        stack = (*callers, f"m:{node.name}")
        lasted = round(float(event["dur"]))
        own[stack] += lasted - sum(walk(callee, stack) for callee in node.callees)
        return lasted

    walk(root, ())
    return own


TREES = st.recursive(
    st.builds(Node, st.sampled_from("abc"), st.integers(1, 5)),
    lambda nodes: st.builds(
        Node, st.sampled_from("abc"), st.integers(1, 5), st.lists(nodes, max_size=4)
    ),
    max_leaves=30,
)


@given(TREES, st.integers(0, 10**10))
def test_costs_and_times_of_stacks_are_those_of_the_tree_of_calls(root: Node, since: int) -> None:
    events, stacks = list(root.events(since)), times_of_stacks(root)
    times = read_times(dumped(document(*events)), namer)
    assert {stack: round(time) for stack, time in times.items()} == stacks
    inclusive, own = Counter[str](), Counter[str]()
    for stack, time in stacks.items():
        inclusive.update(dict.fromkeys(stack, time))  # once, also in a recursion
        own[stack[-1]] += time
    trace = read(*events)
    assert microseconds(trace) == {name: (inclusive[name], own[name]) for name in own}
    seconds = sum(costs["self_seconds"] for costs in trace[0].values())
    assert seconds == pytest.approx(events[-1]["dur"] * 1e-6)


RAW = (
    b'{"traceEvents":[{"ph":"M","pid":1,"tid":11,"name":"thread_name","args":{"name":"th\\"\x1b"}},'
    b'{"pid":1,"tid":11,"ts":1.0,"ph":"X","cat":"fee","dur":2.000,"name":"%s (/src/a.py:1)"},'
    b'{"pid":1,"tid":11,"ts":4.0,"ph":"X","cat":"fee","dur":1.000,"name":"%s (/src/a.py:2)",'
    b'"args":{"func_args": {"a": "\'q\\"\'"}}},'
    b'{"pid":1,"tid":11,"ts":9.0,"ph":"i","cat":"instant","name":"end","s":"g"}'
    b'], "viztracer_metadata": {"overflow":false}}'
)
"""A file in which viztracer 1.1 has written a function's name twice, as it is."""


@pytest.mark.parametrize(
    ("name", "read_as"),
    [
        ('a"b', 'a"b'),
        ("a\x1b[31mb", "a?[31mb"),
        ("a\nb", "a b"),
        ("a\\x", "a\\x"),
        ("a\\", "a\\"),
        ("a\\\\", "a\\"),  # as one escape: that it is two characters cannot be known
        ('","ts":"b', '","ts":"b'),
        ('"}', '"}'),
    ],
)
def test_names_that_viztracer_does_not_escape_are_read(name: str, read_as: str) -> None:
    content = RAW.replace(b"%s", name.encode())
    functions, _ = read_trace(mended(content), namer)
    assert set(functions) == {f"a:{read_as}"}
    assert functions[f"a:{read_as}"]["seconds"] == pytest.approx(3e-6)


def test_a_valid_trace_is_left_as_it_is() -> None:
    content = RAW.replace(b"\x1b", b"").replace(b"%s", b"Class.<lambda>")
    assert mended(content) is content


@example("\\\\")
@given(st.text(max_size=30).filter(str.isprintable))
def test_any_printable_name_gives_a_trace_that_is_json(name: str) -> None:
    json.loads(mended(RAW.replace(b"%s", name.encode())))


CASES = 150

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
TRACE_FILE = dumped(document(call("f (/src/a.py:1)", 1.0, 3.0), call("builtins.len", 0.0, 4.0)))
COUNTS = json.dumps(
    {"schedprof_counts": 1, "python": "3.11", "functions": {"a:b": {"calls": 1}}, "whole": {"x": 2}}
).encode()


def _draw(content: bytes) -> object:
    file = read_speedscope(content)
    return write_flamegraph(file), name_frames(file, namer, backend="", mode="")


READERS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "samples": (speedscope(), _draw),
    "trace": (TRACE_FILE, lambda content: read_trace(mended(content), namer)),
    "stats": (STATS, lambda content: read_costs(content, namer)),
    "stats for tools": (STATS, write_pstats),
    "counts": (COUNTS, read_counts),
    "counts with more": (
        COUNTS,
        lambda content: with_more(content, {"a:b": {"calls": 1}}, {"a:b": "0f"}),
    ),
}


def damaged(content: bytes) -> list[bytes]:
    contents = [b"", content[: len(content) // 2]]
    for seed in range(CASES):
        chance = random.Random(seed)
        is_json = content.startswith(b"{") and seed % 2
        contents.append((changed_value if is_json else changed_bytes)(chance, content))
    return contents


def complaint(read: Callable[[bytes], object], content: bytes) -> str:
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


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("content", [b"", b"{", b"x" * 100], ids=["empty", "brace", "letters"])
def test_a_file_that_is_empty_or_no_such_file_is_refused(name: str, content: bytes) -> None:
    assert complaint(READERS[name][1], content)


def test_a_trace_of_which_the_end_is_missing_is_not_decompressed() -> None:
    with pytest.raises(FormatError, match="cannot be decompressed"):
        unpacked(gzip.compress(b"")[:15])


@pytest.mark.parametrize("weight", [1e308, -1e308, 1e30])
def test_samples_of_impossible_weight_are_refused(weight: float) -> None:
    content = speedscope().replace(b'"endValue": 1', b'"endValue": ' + repr(weight).encode())
    with pytest.raises(FormatError, match="which cannot be"):
        read_speedscope(content)


def test_what_cprofile_measured_is_written_for_its_tools(tmp_path: Path) -> None:
    (tmp_path / "it.pstats").write_bytes(write_pstats(STATS))
    stats = pstats.Stats(str(tmp_path / "it.pstats"))
    assert stats.stats == {  # type: ignore[attr-defined]
        ("/src/a.py", 3, "f"): (1, 2, 0.1, 0.2, {("/src/a.py", 1, "\xe9"): (1, 1, 0.1, 0.1)}),
        ("~", 0, "<built-in len>"): (1, 2**40, 0.1, 0.2, {}),
    }


def test_code_of_one_place_and_name_is_one_function_of_cprofile() -> None:
    """As the code of all named tuples is, and that of lambdas on one line."""
    functions: list[Callable[[], None]] = [lambda: None, lambda: None]
    profiler = cProfile.Profile()
    profiler.enable()
    for function in (*functions, functions[1]):
        function()
    profiler.disable()
    content = as_json({"schedprof_cprofile": 1, "functions": summed(profiler.getstats())})
    costs = read_costs(content, lambda places: [name for _, name, _ in places])
    (name,) = (name for name in costs if name.endswith("<lambda>"))
    assert costs[name]["calls"] == 3
