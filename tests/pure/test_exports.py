"""Tests of exports: samples in other tools' formats are read back by these tools or a parser."""

from __future__ import annotations

import gzip
from array import array
from collections import Counter
from typing import Any

import msgspec
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.backends.pyspy import PySpyBackend
from pytest_schedprof.backends.viztracer import VizTracerBackend
from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats.exports import export_of, join_samples, join_traces, write_pprof
from pytest_schedprof.formats.pictures import write_collapsed, write_raw
from pytest_schedprof.formats.speedscope import (
    Frame,
    Samples,
    SpeedscopeFile,
    read_speedscope,
    write_speedscope,
)

FILE = SpeedscopeFile(
    frames=[
        Frame("run", "a.py", 1),
        Frame("Class.work;fast", "a b.py", 300),
        Frame("Class.work;fast", "a b.py", 301),
        Frame("<lambda>"),
    ],
    stacks=[(0, 1), (0, 2), (0, 1, 3)],
    threads=[
        Samples("event loop", array("q", [0, 1, 0, 2, 0]), empty=0, seconds=0.01),
        Samples("other", array("q", [2]), empty=1, seconds=0.01),
    ],
)

ARTIFACTS = [*PySpyBackend.artifacts, *VizTracerBackend.artifacts]

NUMBER, TEXT = (
    getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{n}") for n in ("INT64", "STRING")
)
MESSAGES: dict[str, dict[str, tuple[int, Any]]] = {
    "ValueType": {"type": (1, NUMBER), "unit": (2, NUMBER)},
    "Label": {"key": (1, NUMBER), "str": (2, NUMBER)},
    "Sample": {"*location_id": (1, NUMBER), "*value": (2, NUMBER), "*label": (3, "Label")},
    "Line": {"function_id": (1, NUMBER), "line": (2, NUMBER)},
    "Location": {"id": (1, NUMBER), "*line": (4, "Line")},
    "Function": {"id": (1, NUMBER), "name": (2, NUMBER), "filename": (4, NUMBER)},
    "Profile": {
        "*sample_type": (1, "ValueType"),
        "*sample": (2, "Sample"),
        "*location": (4, "Location"),
        "*function": (5, "Function"),
        "*string_table": (6, TEXT),
        "period_type": (11, "ValueType"),
        "period": (12, NUMBER),
    },
}
"""The messages of profile.proto that are written; a star marks repeated fields."""


def read_pprof(content: bytes) -> Any:
    """Read a profile with Google's own protocol buffers library."""
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            added = message.field.add(name=field.strip("*"), number=number)
            added.label = added.LABEL_REPEATED if field.startswith("*") else added.LABEL_OPTIONAL
            if isinstance(kind, str):
                added.type, added.type_name = added.TYPE_MESSAGE, f".p.{kind}"
            else:
                added.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    profile = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))()
    profile.ParseFromString(gzip.decompress(content))
    assert not len(unknown_fields.UnknownFieldSet(profile))
    return profile


def test_pprof_holds_each_stack_with_its_thread_lines_and_time() -> None:
    profile = read_pprof(write_pprof(FILE))
    text = profile.string_table
    assert text[0] == ""
    assert [(text[t.type], text[t.unit]) for t in profile.sample_type] == [
        ("samples", "count"),
        ("time", "nanoseconds"),
    ]
    functions = {row.id: (text[row.name], text[row.filename]) for row in profile.function}
    locations = {place.id: place.line[0] for place in profile.location}
    assert sorted(functions.values()) == [
        ("<lambda>", ""),
        ("Class.work;fast", "a b.py"),
        ("run", "a.py"),
    ]
    amounts = {}
    for sample in profile.sample:
        lines = [locations[number] for number in sample.location_id]
        stack = tuple((functions[line.function_id][0], line.line) for line in lines)
        assert text[sample.label[0].key] == "thread"
        amounts[text[sample.label[0].str], stack] = tuple(sample.value)
    run, inner, outer = ("run", 1), ("Class.work;fast", 300), ("Class.work;fast", 301)
    assert amounts == {
        ("event loop", (inner, run)): (3, 30_000_000),
        ("event loop", (outer, run)): (1, 10_000_000),
        ("event loop", (("<lambda>", 0), inner, run)): (1, 10_000_000),
        ("other", (("<lambda>", 0), inner, run)): (1, 10_000_000),
    }
    assert (text[profile.period_type.unit], profile.period) == ("nanoseconds", 10_000_000)


@given(st.lists(st.tuples(st.text(), st.integers(0, 2**40)), min_size=1, max_size=5))
def test_pprof_keeps_any_names_and_lines(places: list[tuple[str, int]]) -> None:
    frames = [Frame(name, None, line) for name, line in places]
    threads = [Samples("t", array("q", [0]), 0, 0.01)]
    profile = read_pprof(write_pprof(SpeedscopeFile(frames, [tuple(range(len(frames)))], threads)))
    names = {row.id: profile.string_table[row.name] for row in profile.function}
    lines = {place.id: place.line[0] for place in profile.location}
    stack = [lines[number] for number in reversed(profile.sample[0].location_id)]
    assert [(names[frame.function_id], frame.line) for frame in stack] == places


def test_collapsed_has_a_line_for_each_stack_whatever_its_lines() -> None:
    assert write_collapsed(FILE).decode().splitlines() == [
        "event loop;run (a.py);Class.work:fast (a b.py) 4",
        "event loop;run (a.py);Class.work:fast (a b.py);<lambda> 1",
        "other;run (a.py);Class.work:fast (a b.py);<lambda> 1",
    ]


def test_raw_has_a_line_for_each_line_of_code_whatever_its_thread() -> None:
    assert write_raw(FILE).decode().splitlines() == [
        "run (a.py:1);Class.work:fast (a b.py:300) 3",
        "run (a.py:1);Class.work:fast (a b.py:300);<lambda> 2",
        "run (a.py:1);Class.work:fast (a b.py:301) 1",
    ]


def test_segments_of_a_window_become_one_file() -> None:
    content = write_speedscope(FILE)
    joined = join_samples([content, content])
    again = read_speedscope(write_speedscope(joined))
    assert [samples.thread for samples in again.threads] == ["event loop", "other"] * 2
    twice = Counter(write_collapsed(again).decode().splitlines())
    assert "event loop;run (a.py);Class.work:fast (a b.py) 8" in twice
    assert again.threads[0].seconds == pytest.approx(0.01)


def test_traces_become_one_also_where_one_is_packed() -> None:
    one, other = ({"traceEvents": [{"ph": "X", "name": name}], "x": 1} for name in "ab")
    packed = gzip.compress(msgspec.json.encode(other))
    joined = msgspec.json.decode(join_traces([msgspec.json.encode(one), packed]))
    assert [event["name"] for event in joined["traceEvents"]] == ["a", "b"]
    with pytest.raises(FormatError, match="not a Chrome trace"):
        join_traces([b"{}", b"["])


def test_the_scheduler_is_exported_and_nobody_else() -> None:
    names = ["client.pyspy.speedscope.json", "worker-0.pyspy.speedscope.json"]
    assert export_of(names, "pprof", ARTIFACTS) is None
    mine = ["scheduler.pyspy.speedscope.json", "scheduler.2.pyspy.speedscope.json"]
    sampled = export_of([*names, *mine, "scheduler.viztracer.json"], "pprof", ARTIFACTS)
    assert sampled is not None
    assert sampled.names == tuple(mine)
    traced = export_of([*mine, "scheduler.viztracer.json"], "chrometrace", ARTIFACTS)
    assert traced is not None
    assert traced.names == ("scheduler.viztracer.json",)
