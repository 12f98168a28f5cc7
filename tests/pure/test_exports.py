"""Tests of exports: samples in other tools' formats are read back by these tools or a parser."""

from __future__ import annotations

import gzip
from array import array
from collections import Counter

import msgspec
import pytest

from pytest_schedprof.backends.pyspy import PySpyBackend
from pytest_schedprof.backends.viztracer import VizTracerBackend
from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats.exports import export_of, join_samples, join_traces
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
    assert export_of(names, "collapsed", ARTIFACTS) is None
    mine = ["scheduler.pyspy.speedscope.json", "scheduler.2.pyspy.speedscope.json"]
    sampled = export_of([*names, *mine, "scheduler.viztracer.json"], "collapsed", ARTIFACTS)
    assert sampled is not None
    assert sampled.names == tuple(mine)
    traced = export_of([*mine, "scheduler.viztracer.json"], "chrometrace", ARTIFACTS)
    assert traced is not None
    assert traced.names == ("scheduler.viztracer.json",)
