"""Tests of reading Chrome traces, as viztracer dumps them and damaged ones."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats.chrometrace import Trace, mended, read_times, read_trace

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


def namer(places: list[tuple[str, str, int]]) -> list[str]:
    return [f"{file.rpartition('/')[2].removesuffix('.py')}:{name}" for file, name, _ in places]


def read(*events: dict[str, Any], overflow: bool = False) -> Trace:
    return read_trace(json.dumps(document(*events, overflow=overflow)).encode(), namer)


def microseconds(trace: Trace) -> dict[str, tuple[int, int]]:
    """Time of each function in microseconds, with and without its callees."""
    return {
        name: (round(costs["seconds"] * 1e6), round(costs["self_seconds"] * 1e6))
        for name, costs in trace.functions.items()
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
    begun = {**call("f (/src/a.py:1)", 1, 1), "ph": "B"}  # it did not return
    counter = {"ph": "C", "tid": LOOP, "ts": 1.5, "name": "gc", "args": {"collected": 3}}
    events = (
        call("coroutine (/src/a.py:1)", 2, 5, TASK),
        call("waits (/src/b.py:1)", 0, 90, OTHER),
        counter,
        begun,
        call("run (/src/loop.py:1)", 1, 10),
        thread(TASK),
    )
    trace = read(*events)
    assert microseconds(trace) == {"a:coroutine": (3, 3), "loop:run": (9, 6)}
    assert not trace.overflowed
    assert read(overflow=True) == Trace({}, overflowed=True)


def test_a_trace_without_a_mark_is_refused() -> None:
    content = json.dumps(document(call("f (/a.py:1)", 0, 1))).replace('"ph": "i"', '"ph": "C"')
    with pytest.raises(FormatError, match="not a trace of this package"):
        read_trace(content.encode(), namer)


def test_a_file_cut_off_anywhere_is_recognised() -> None:
    content = json.dumps(document(call("é (/src/a.py:1)", 0, 1))).encode()
    read_trace(content, namer)
    for length in range(len(content)):
        with pytest.raises(FormatError, match="not a trace of viztracer"):
            read_trace(content[:length], namer)


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


def expected(root: Node, now: int) -> dict[str, tuple[int, int]]:
    """Compute the times by walking down the tree with the list of callers."""
    inclusive: defaultdict[str, int] = defaultdict(int)
    own: defaultdict[str, int] = defaultdict(int)

    def walk(node: Node, since: int, callers: tuple[str, ...]) -> int:
        start = now = since + node.gap
        for callee in node.callees:
            before, now = now, walk(callee, now, (*callers, node.name))
            own[node.name] -= now - before - 2 * callee.gap
        own[node.name] += now + 1 - start
        inclusive[node.name] += (now + 1 - start) * (node.name not in callers)
        return now + 1 + node.gap

    walk(root, now, ())
    return {f"m:{name}": (inclusive[name], own[name]) for name in own}


TREES = st.recursive(
    st.builds(Node, st.sampled_from("abc"), st.integers(1, 5)),
    lambda nodes: st.builds(
        Node, st.sampled_from("abc"), st.integers(1, 5), st.lists(nodes, max_size=4)
    ),
    max_leaves=30,
)


@given(TREES, st.integers(0, 10**10))
def test_costs_are_those_of_the_tree_of_calls(root: Node, since: int) -> None:
    trace = read(*root.events(since))
    assert microseconds(trace) == expected(root, since)
    (outermost,) = list(root.events(since))[-1:]
    own = sum(costs["self_seconds"] for costs in trace.functions.values())
    assert own == pytest.approx(outermost["dur"] * 1e-6)


@given(TREES, st.integers(0, 10**10))
def test_times_of_stacks_are_those_of_the_tree_of_calls(root: Node, since: int) -> None:
    own: defaultdict[tuple[str, ...], int] = defaultdict(int)

    def walk(node: Node, callers: tuple[str, ...]) -> int:
        (*_, event) = node.events(0)
        stack = (*callers, f"m:{node.name}")
        lasted = round(float(event["dur"]))
        own[stack] += lasted - sum(walk(callee, stack) for callee in node.callees)
        return lasted

    walk(root, ())
    times = read_times(json.dumps(document(*root.events(since))).encode(), namer)
    assert {stack: round(time) for stack, time in times.items()} == own


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
    functions = read_trace(mended(content), namer).functions
    assert set(functions) == {f"a:{read_as}"}
    assert functions[f"a:{read_as}"]["seconds"] == pytest.approx(3e-6)


def test_a_valid_trace_is_left_as_it_is() -> None:
    content = RAW.replace(b"\x1b", b"").replace(b"%s", b"Class.<lambda>")
    assert mended(content) is content


@example("\\\\")
@given(st.text(max_size=30).filter(str.isprintable))
def test_any_printable_name_gives_a_trace_that_is_json(name: str) -> None:
    json.loads(mended(RAW.replace(b"%s", name.encode())))
