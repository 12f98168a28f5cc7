"""Tests of what counts instructions: a counter of the processor, or callgrind and its files."""

from __future__ import annotations

import errno
import json
import random
import struct
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import changed_bytes

from pytest_schedprof.agent import instructions as agent
from pytest_schedprof.agent.perf_events import instructions
from pytest_schedprof.backends import instructions as backend
from pytest_schedprof.backends.instructions import InstructionsBackend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.errors import (
    BackendNotPermittedError,
    BackendUnavailableError,
    FormatError,
)
from pytest_schedprof.formats import callgrind
from pytest_schedprof.formats.callgrind import Call, CallGraph, read_callgrind, unfolded, with_names
from pytest_schedprof.measuring.plan import make_plan
from pytest_schedprof.measuring.settings import read_call
from pytest_schedprof.model.profile import CodeLocation

COUNTER = {
    "schedprof_instructions": 1,
    "instructions": 4_711_000_815,
    "enabled_ns": 1_300_000_000,
    "running_ns": 1_300_000_000,
}


def no_names(places: Sequence[CodeLocation]) -> list[str]:
    assert not places
    return []


def content(**changed: Any) -> bytes:
    return json.dumps({**COUNTER, **changed}).encode()


def made(by: str = "auto", *patterns: str) -> InstructionsBackend:
    return InstructionsBackend(rate_hz=100, options={"by": by}, patterns=patterns)


def test_a_count_is_the_cost_of_the_whole_unless_it_was_interrupted() -> None:
    profile = made().read(content(), no_names)
    assert profile.mode == "counter"
    assert profile.whole == {"instructions": 4_711_000_815}
    assert not profile.functions
    assert not profile.doubt
    assert "as a whole" in profile.hides
    assert made().suffix(content()) == "instructions.json"
    doubt = made().read(content(running_ns=325_000_000), no_names).doubt
    assert doubt.startswith("others took the processor's counter for 75% of the time")


@given(st.binary(max_size=60))
@example(content(instructions=0.5))
@example(content(enabled_ns=None))
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"not a file of (instructions|callgrind)"):
        made().read(data, no_names)


@pytest.mark.parametrize(
    ("by", "patterns", "is_lent", "can_be_emulated", "takes_valgrind"),
    [
        ("auto", (), True, True, False),
        ("auto", (), False, True, True),
        ("auto", ("c:list_sort*",), True, True, True),
        ("auto", ("@comm",), True, True, True),
        ("auto", ("c:list_sort*",), False, False, False),  # the refusal says more
        ("counter", ("c:list_sort*",), False, True, False),
        ("valgrind", (), True, False, True),
    ],
)
def test_what_counts(
    by: str,
    patterns: tuple[str, ...],
    is_lent: bool,
    can_be_emulated: bool,
    takes_valgrind: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backend, "is_lent", lambda: is_lent)
    monkeypatch.setattr(agent, "can_be_emulated", lambda: can_be_emulated)
    assert ("valgrind" in made(by, *patterns).launcher) == takes_valgrind


@pytest.mark.parametrize(
    ("limits", "patterns"),
    [
        (("share(a:b) <= 30%", "instructions <= 5"), ()),  # no valgrind for a limit on a share
        (("instructions(a:b) <= 5", "instructions(@comm) <= 5"), ("a:b", "@comm")),
    ],
)
def test_a_backend_is_told_what_limits_on_its_own_metrics_name(
    limits: tuple[str, ...], patterns: tuple[str, ...]
) -> None:
    settings = read_call("a test", limits, {}, backend="instructions,pyspy")
    store = cast(Any, SimpleNamespace(prepare=lambda: None))
    (counting, _) = make_plan(settings, BackendRegistry(), store).backends
    assert isinstance(counting, InstructionsBackend)
    assert counting.patterns == patterns


@pytest.mark.parametrize(
    ("answer", "words", "remedy"),
    [
        (
            {"problem": "not-emulated"},
            "the scheduler was not started by it",
            "--schedprof-cluster=virtual",
        ),
        (
            {"problem": "system", "system": "Windows on AMD64"},
            "needs Linux on x86-64 or ARM, and the scheduler runs Windows on AMD64",
            "",
        ),
        (
            {"problem": "refused", "error": errno.ENOENT},
            "as most virtual machines",
            "valgrind counts without one",
        ),
        (
            {"problem": "refused", "error": errno.ENOSYS},
            "some sandboxes",
            "valgrind counts without one",
        ),
        (
            {"problem": "refused", "error": errno.EACCES, "paranoid": "4"},
            "perf_event_paranoid is 4",
            "sysctl kernel.perf_event_paranoid=2",
        ),
        (
            {"problem": "refused", "error": errno.EPERM, "paranoid": "2"},
            "a filter or policy refuses it",
            "--cap-add PERFMON",
        ),
    ],
)
def test_a_refusal_says_why_and_what_to_do(answer: dict[str, Any], words: str, remedy: str) -> None:
    error = made().refusal(answer, cast(Any, SimpleNamespace(label="the scheduler")), 1.0)
    assert isinstance(error, BackendUnavailableError)
    assert words in error.reason
    assert remedy in " ".join(error.remedies)
    is_forbidden = answer.get("error") in (errno.EACCES, errno.EPERM)
    assert isinstance(error, BackendNotPermittedError) == is_forbidden


def test_the_counter_is_of_instructions_in_user_space() -> None:
    kind, size, config, *_, flags = struct.unpack_from("=IIQQQQQ", instructions())
    assert (kind, config) == (0, 1)
    assert size == len(instructions()) == 112
    assert flags == 0b1100001  # off at first, without the kernel's and a hypervisor's


RECORDED = b"""# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 32047
cmd:  python -c \\nimport sys\\n
part: 2


desc: Trigger: Client Request

positions: line
events: Ir
summary: 0


ob=(15) /usr/lib/python3.13/lib-dynload/_bisect.cpython-313-x86_64-linux-gnu.so
fl=(353) ./Modules/clinic/_bisectmodule.c.h
fn=(11952) _bisect_insort_right
144 140
+2 20
cob=(4) /usr/lib/libpython3.13.so.1.0
cfi=(72) Objects/listobject.c
cfn=(740) list_sort_impl
calls=20 61
* 4600

ob=(4)
fl=(62) ./Objects/listobject.c
fn=(740)
2858 208
fi=(18) ./Include/object.h
349 26
fe=(62)
-1 26
cfi=(28) ./Python/ceval.c
cfn=(160) _PyEval_EvalFrameDefault'2'0x00000000053a9060
calls=300 1397
* 72600

fn=(160)
12 60000
cfn=(161) 0x00000000053a9060
calls=7 1397
* 700

fn=(162) 0x00000000053a9060
0 14
cfn=(160)
calls=300 12
0 60000

fn=(163) 0x00000000048c73d8
0 3

# schedprof-symbol: 53a9060 b py::distributed.scheduler:WorkerState.__lt__
# schedprof-symbol: 48c0000 10000 [libpython3.13.so.1.0]
"""
"""Parts of a file of callgrind 3.19, with the lines that the agent adds."""

LESS = "distributed.scheduler:WorkerState.__lt__"


def test_agent_and_reader_agree_on_what_is_added() -> None:
    assert callgrind.SYMBOL.fullmatch(f"{agent.SYMBOL}4f b py::a:b\n".encode())
    assert callgrind.PYTHON == agent.PYTHON


def test_a_recorded_file_is_read_with_the_names_of_python_functions() -> None:
    named = with_names(RECORDED)
    assert b"0x0" not in named
    assert b"schedprof-symbol" not in named
    graph = read_callgrind(named)
    assert graph.own == {
        "c:_bisect_insort_right": 160,
        "c:list_sort_impl": 260,
        LESS: 60014,
        "c:[libpython3.13.so.1.0]": 3,
    }
    assert graph.calls == {
        ("c:_bisect_insort_right", "c:list_sort_impl"): Call(20, 4600),
        ("c:list_sort_impl", LESS): Call(300, 72600),
    }


def test_a_file_without_symbols_keeps_its_functions() -> None:
    graph = read_callgrind(with_names(RECORDED.partition(b"# schedprof")[0]))
    assert graph.own["c:_PyEval_EvalFrameDefault"] == 60000
    assert graph.own["c:[unknown]"] == 17


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("list_sort_impl", "c:list_sort_impl"),
        ("list_sort_impl'2", "c:list_sort_impl"),
        ("PyObject_Repr'12'vgetargs", "c:PyObject_Repr"),
        ("py::a.b:C.f", "a.b:C.f"),
        ("py::a.b:C.f'2", "a.b:C.f"),
        ("_PyEval_EvalFrameDefault'2'py::a:f.<locals>.<lambda>", "a:f.<locals>.<lambda>"),
        ("_PyEval_EvalFrameDefault'task_step", "c:_PyEval_EvalFrameDefault"),
        ("msgpack::unpack(char const*)", "c:msgpack::unpack(char const*)"),
    ],
)
def test_a_name_in_a_file_is_a_function(name: str, function: str) -> None:
    assert callgrind.function_of(name) == function


NAMES = st.sampled_from(["a", "b", "list_sort_impl", "py::m:f", "py::m:C.g"])
COSTS = st.integers(0, 10**15)
OWN = st.dictionaries(NAMES, COSTS, min_size=1)
CALLS = st.dictionaries(st.tuples(NAMES, NAMES), st.tuples(st.integers(1, 10**6), COSTS))


def written(
    own: Mapping[str, int], calls: Mapping[tuple[str, str], tuple[int, int]], chance: random.Random
) -> bytes:
    """Write a file as callgrind does: names are numbered, and repeated by their numbers."""
    numbers: dict[str, int] = {}
    lines = ["# callgrind format", "positions: line", "events: Ir", ""]

    def name(key: str, text: str) -> str:
        if text in numbers and chance.random() < 0.9:
            return f"{key}=({numbers[text]})"
        number = numbers.setdefault(text, len(numbers) + 1)
        return f"{key}=({number}) {text}"

    for caller in sorted({*own, *(caller for caller, _ in calls)}):
        lines.append(name("fn", caller))
        if caller in own:
            part = chance.randint(0, own[caller])
            lines += [f"{chance.randint(0, 99)} {part}", f"+3 {own[caller] - part}"]
        for (one, called), (count, cost) in calls.items():
            if one == caller:
                lines += [name("cfn", called), f"calls={count} 7", f"* {cost}"]
    return "\n".join(lines).encode()


@given(OWN, CALLS, st.randoms(use_true_random=False))
def test_what_is_written_is_read(
    own: dict[str, int], calls: dict[tuple[str, str], tuple[int, int]], chance: random.Random
) -> None:
    graph = read_callgrind(written(own, calls, chance))
    function_of = callgrind.function_of
    assert graph.own == {function_of(name): cost for name, cost in own.items()}
    assert graph.calls == {
        (function_of(one), function_of(other)): Call(*call)
        for (one, other), call in calls.items()
        if one != other  # what a function does in calls of itself is its own
    }


def test_a_damaged_file_is_read_or_refused() -> None:
    for seed in range(100):
        content = changed_bytes(random.Random(seed), RECORDED)
        try:
            graph = read_callgrind(with_names(content))
        except FormatError:
            graph = CallGraph()
        assert sum(backend.charged(graph).values()) <= graph.total + 1, seed
        assert min(unfolded(graph).values(), default=1) > 0, seed


@pytest.mark.parametrize("content", [b"", b"{", b"fn=(1) f\n1 2\n", b"events: Dr\n"])
def test_another_file_is_refused(content: bytes) -> None:
    with pytest.raises(FormatError, match="not a file of callgrind"):
        read_callgrind(content)


def graph_of(own: Mapping[str, int], **calls: tuple[int, int]) -> CallGraph:
    """A graph; the keyword `a__b` is for calls of b by a."""
    pairs = {tuple(key.split("__")): Call(*call) for key, call in calls.items()}
    return CallGraph(
        {_full(name): cost for name, cost in own.items()},
        {(_full(one), _full(other)): call for (one, other), call in pairs.items()},
    )


def _full(name: str) -> str:
    return f"m:{name}" if name.isupper() else f"c:{name}"


BY_COST = graph_of(
    {"F": 100, "G": 10, "sort": 70, "compare": 30},
    F__sort=(1, 80),
    G__sort=(9, 20),
    sort__compare=(5, 30),
)
BY_CALLS_OF_PYTHON = graph_of(
    {"F": 100, "G": 10, "H": 1000, "call": 40},
    F__call=(3, 1020),
    G__call=(1, 20),
    call__H=(3, 1000),
)
CALLS_NOT_MEASURED = graph_of(
    {"F": 100, "G": 0, "H": 1000, "call": 400},
    F__call=(9, 1360),
    G__call=(900, 40),  # one of them was measured
    K__call=(900, 0),
    call__H=(3, 1000),
)
CALLS_OF_EACH_OTHER = graph_of(
    {"F": 0, "repr": 60_000, "list_repr": 40_000},
    F__repr=(1, 100_000),
    repr__list_repr=(4, 90_000),
    list_repr__repr=(3, 60_000),
)


@pytest.mark.parametrize(
    ("graph", "costs"),
    [
        (BY_COST, {"m:F": pytest.approx(180), "m:G": pytest.approx(30)}),
        (BY_CALLS_OF_PYTHON, {"m:F": 130, "m:G": 20, "m:H": 1000}),
        (
            CALLS_NOT_MEASURED,
            {"m:F": pytest.approx(460, abs=5), "m:G": pytest.approx(40, abs=5), "m:H": 1000},
        ),
        (CALLS_OF_EACH_OTHER, {"m:F": pytest.approx(100_000, rel=1e-3)}),
    ],
)
def test_c_code_is_charged_to_the_functions_that_call_it(
    graph: CallGraph, costs: dict[str, object]
) -> None:
    assert backend.charged(graph) == costs


def test_a_graph_is_unfolded_to_stacks_with_its_costs() -> None:
    graph = graph_of(
        {"F": 100, "G": 200, "sort": 1000},
        F__G=(1, 800),
        F__sort=(1, 400),
        G__sort=(1, 600),
    )
    assert unfolded(graph) == {
        ("m:F",): 100,
        ("m:F", "m:G"): 200,
        ("m:F", "m:G", "c:sort"): 600,
        ("m:F", "c:sort"): 400,
    }


def test_calls_that_cost_next_to_nothing_have_no_stack_of_their_own() -> None:
    graph = graph_of({"F": 10**6, "g": 3}, F__g=(1, 3))
    assert unfolded(graph) == {("m:F",): 10**6 + 3}


def test_recursion_is_unfolded_to_an_end() -> None:
    graph = graph_of({"F": 500, "G": 500}, F__G=(5, 900), G__F=(5, 800))
    stacks = unfolded(graph)
    assert max(map(len, stacks)) > 3
    assert sum(stacks.values()) == pytest.approx(graph.total, rel=0.01)
