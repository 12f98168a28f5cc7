"""Tests of the functions that explain a rise, and of digests of code."""

from __future__ import annotations

from types import FunctionType

import pytest

from pytest_schedprof.agent.counts import digests_of
from pytest_schedprof.judge.causes import causes
from pytest_schedprof.model.explanation import Cost, Part, Role

BALANCE = "distributed.stealing:WorkStealing.balance"
SCAN = f"{BALANCE}.<locals>.<genexpr>"
NEW_TASK = "distributed.scheduler:SchedulerState.new_task"
HELPER = "distributed.scheduler:_helper"
KEY_SPLIT = "dask.utils:key_split"
MINE = "my_plugin:Plugin.transition"
VALUES = "collections.abc:ValuesView.__iter__"
HOOK = "collections.abc:Collection.__subclasshook__"
ABORT = "distributed.comm.inproc:InProc.abort"
WRITE = "tornado.iostream:BaseIOStream.write"

NONE = Cost()


def cost(amount: float, calls: float = 1.0, code: str = "aa") -> Cost:
    return Cost(amount, calls, code=code)


OTHER = "bb"
"""The digest of code that differs."""

Sides = dict[str, tuple[Cost, Cost]]

CASES: dict[str, tuple[Sides, list[tuple[str, Role]]]] = {
    "nothing rose": ({BALANCE: (cost(100), cost(100)), VALUES: (cost(9), cost(8))}, []),
    "code that differs, above its callees": (
        {
            BALANCE: (cost(100), cost(104, code=OTHER)),
            KEY_SPLIT: (cost(50), cost(900, 18)),
            VALUES: (cost(10), cost(3000, 300)),
        },
        [(BALANCE, Role.CHANGED)],
    ),
    "a comprehension in it that is new": (
        {BALANCE: (cost(100), cost(100, code=OTHER)), SCAN: (NONE, cost(400, 2, OTHER))},
        [(BALANCE, Role.CHANGED)],
    ),
    "two that differ, the larger first": (
        {
            NEW_TASK: (cost(100), cost(110, code=OTHER)),
            BALANCE: (cost(100), cost(130, code=OTHER)),
            KEY_SPLIT: (cost(50), cost(51, code=OTHER)),
            MINE: (cost(100), cost(100.1, code=OTHER)),  # too little beside the others
        },
        [(BALANCE, Role.CHANGED), (NEW_TASK, Role.CHANGED), (KEY_SPLIT, Role.CHANGED)],
    ),
    "a helper, of which the caller has the price of a call": (
        {NEW_TASK: (cost(100), cost(106, code=OTHER)), HELPER: (NONE, cost(36))},
        [(NEW_TASK, Role.CHANGED)],
    ),
    "a helper whose caller does less": (
        {NEW_TASK: (cost(100), cost(70, code=OTHER)), HELPER: (NONE, cost(60))},
        [(HELPER, Role.NEW)],
    ),
    "code of another module that ran for no reason before": (
        {NEW_TASK: (cost(100), cost(98, code=OTHER)), KEY_SPLIT: (NONE, cost(900))},
        [(NEW_TASK, Role.CHANGED)],
    ),
    "a cache that is used no more": (
        {NEW_TASK: (cost(100), cost(98, code=OTHER)), KEY_SPLIT: (cost(50), cost(500, 10))},
        [(NEW_TASK, Role.CHANGED)],
    ),
    "what carries messages, and runs for the first time": (
        {NEW_TASK: (cost(100), cost(98, code=OTHER)), ABORT: (NONE, cost(900))},
        [(NEW_TASK, Role.CHANGED)],
    ),
    "a library that differs": (
        {WRITE: (cost(100), cost(150, code=OTHER)), BALANCE: (cost(100), cost(200, 2))},
        [(WRITE, Role.CHANGED)],
    ),
    "a loop over more": (
        {BALANCE: (cost(100), cost(140)), KEY_SPLIT: (cost(50), cost(500, 10))},
        [(BALANCE, Role.DEARER)],
    ),
    "more calls": (
        {BALANCE: (cost(100), cost(300, 3)), VALUES: (cost(50), cost(5000, 100))},
        [(BALANCE, Role.CALLED)],
    ),
    "a user's own": (
        {MINE: (cost(10), cost(20, 2)), VALUES: (cost(5), cost(90, 9))},
        [(MINE, Role.CALLED)],
    ),
    "a library alone": (
        {VALUES: (cost(5), cost(90, 9)), HOOK: (NONE, cost(500))},
        [(VALUES, Role.CALLED)],
    ),
    "a cache of the interpreter alone": ({HOOK: (cost(5), cost(500, 9))}, []),
    "other code of one name, on one side only": (
        {BALANCE: (cost(100), cost(150, code="aa bb")), NEW_TASK: (cost(100), cost(300, 3))},
        [(BALANCE, Role.DEARER)],
    ),
}


@pytest.mark.parametrize(("sides", "expected"), CASES.values(), ids=CASES)
def test_what_explains_a_rise_comes_before_what_follows_from_it(
    sides: Sides, expected: list[tuple[str, Role]]
) -> None:
    parts = [Part(name, "", *costs) for name, costs in sides.items()]
    assert [(cause.function, cause.role) for cause in causes({"bytecodes": parts})] == expected


def test_scheduler_and_client_are_taken_together() -> None:
    of_scheduler = [Part(NEW_TASK, "", cost(100), cost(104, code=OTHER))]
    client = [Part(KEY_SPLIT, "", Cost(500, code="aa"), Cost(900, code=OTHER))]
    result = causes({"bytecodes": of_scheduler, "client_bytecodes": client})
    assert [(outcome.function, outcome.metric) for outcome in result] == [
        (KEY_SPLIT, "client_bytecodes"),
    ]


def function_of(source: str) -> FunctionType:
    names: dict[str, object] = {}
    exec(compile(source, "anywhere.py", "exec"), names)
    function = names["f"]
    assert isinstance(function, FunctionType)
    return function


@pytest.mark.parametrize(
    ("source", "other", "is_same"),
    [
        (
            "def f(x): return x",
            "\n\n# a comment\ndef f(x):\n    'what it does'\n    return x",
            True,
        ),
        ("def f(x): return x", "def f(value): return value", True),
        ("def f(x): return x in {'a', 'b'}", "def f(x): return x in {'b', 'a'}", True),
        ("def f(x): return 1", "def f(x): return 2", False),
        ("def f(x): return 1", "def f(x): return 1.0", False),
        ("def f(x): return x.a", "def f(x): return x.b", False),
        ("def f(x): return [y for y in x]", "def f(x): return [-y for y in x]", False),
        ("def f(x): return 'text'", "def f(x): return 'other'", False),
        ("f = lambda x: 'text'", "f = lambda x: 'other'", False),
    ],
)
def test_a_digest_is_of_what_code_does(source: str, other: str, is_same: bool) -> None:
    one, two = (digests_of([function_of(result).__code__]) for result in (source, other))
    assert (one == two) is is_same


def test_a_digest_stays_the_same_when_the_code_has_run_often() -> None:
    function = function_of("def f(x): return sum(each.real for each in x)")
    before = digests_of([function.__code__])
    for _ in range(1000):
        function([1, 2])
    assert digests_of([function.__code__]) == before
