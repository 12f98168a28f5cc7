"""Tests of explanations: functions that explain a rise, parts of a change, and lines of sources."""

from __future__ import annotations

from pathlib import Path
from types import FunctionType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import ENVIRONMENT, compare, counted, measured
from msgspec.structs import replace

from pytest_schedprof.agent.counts import digests_of
from pytest_schedprof.judge.accounts import KeptSide, accounts_of
from pytest_schedprof.judge.causes import causes
from pytest_schedprof.judge.explanation import (
    Pairs,
    code_lines,
    explain,
    source_change,
    why_regressed,
)
from pytest_schedprof.model.explanation import (
    Accounts,
    Cost,
    Explanation,
    Part,
    Place,
    Role,
    Source,
)
from pytest_schedprof.report.words import (
    explanation_headline,
    others,
    sentence,
    source_lines,
    top_parts,
)
from pytest_schedprof.store.baselines import save
from pytest_schedprof.store.runs import KeptTest

F, G, H = (f"distributed.scheduler:{name}" for name in "fgh")

amounts = st.integers(0, 10**6).map(float)
calls = st.none() | st.integers(1, 1000).map(float)
functions = st.dictionaries(
    st.sampled_from([f"distributed.{module}:{name}" for module in "ab" for name in "vwxyz"]),
    st.builds(Cost, amounts, calls),
)


def accounts(functions: dict[str, Cost], **more: object) -> Accounts:
    whole = sum(explanation.amount for explanation in functions.values())
    return replace(Accounts(whole, functions), **more)


def explained(before: Accounts, after: Accounts) -> Explanation:
    return explain("test_x", "counts", "bytecodes", before, after)


def words(before: Accounts, after: Accounts) -> list[str]:
    explanation = explained(before, after)
    return [sentence(explanation, part) for part in top_parts(explanation)]


@given(functions, functions, amounts)
def test_the_parts_and_the_rest_sum_to_the_change(
    before: dict[str, Cost], after: dict[str, Cost], unnamed: float
) -> None:
    later = accounts(after)
    explanation = explained(accounts(before), replace(later, whole=later.whole + unnamed))
    assert sum(part.amount for part in explanation.parts) + explanation.rest == pytest.approx(
        explanation.amount
    )
    assert explanation.rest == pytest.approx(unnamed, abs=1e-3)
    for part in explanation.parts:
        assert part.by_calls + part.by_price == pytest.approx(part.amount)


def test_a_function_that_one_record_need_not_name_is_not_said_to_be_new() -> None:
    before = accounts({F: Cost(980.0)}, whole=1000.0, names_all=False)
    after = accounts({F: Cost(1080.0), G: Cost(5.0)}, whole=1100.0)
    for pair in ((before, after), (after, before)):
        assert [part.function for part in explained(*pair).parts] == [F]


def test_calls_and_price_are_told_apart() -> None:
    before = accounts({F: Cost(100, 2), G: Cost(100, 2), H: Cost(100, 2)})
    after = accounts({F: Cost(200, 4), G: Cost(110, 2), H: Cost(100, 2)})
    explanation = explained(before, after)
    assert [(part.function, part.by_calls, part.by_price) for part in explanation.parts] == [
        (G, 0, 10),  # what does more by itself explains what is called more often
        (F, 100, 0),
    ]
    assert (
        explanation_headline(explanation)
        == "bytecodes: 300 before, 410 now per task (+110, +36.7%)"
    )
    assert words(before, after) == [
        f"+10: `{G}` is called as before (2 per task), 5 bytecodes more per call (now 55)",
        f"+100: `{F}` is called 4 instead of 2 times per task",
    ]


def test_what_came_and_what_went_is_named() -> None:
    before, after = accounts({F: Cost(100, 2)}), accounts({G: Cost(300, 3)})
    assert words(before, after) == [
        f"+300: `{G}` is new, called 3 per task",
        f"-100: `{F}` is gone, was called 2 per task",
    ]


@pytest.mark.parametrize("name", ["distributed.other:f", "distributed.scheduler:renamed"])
def test_a_function_that_moved_is_one_part(name: str) -> None:
    before, after = accounts({F: Cost(100, 2)}), accounts({name: Cost(104, 2)})
    (part,) = explained(before, after).parts
    assert (part.function, part.moved_from, part.amount) == (name, F, 4)
    assert words(before, after) == [
        f"+4: `{name}` was `{F}` before, is called as before (2 per task), 2 bytecodes more per "
        "call (now 52)"
    ]


def test_a_function_that_costs_the_same_is_not_told_though_its_code_differs() -> None:
    before = accounts({F: Cost(1.05, code="old"), G: Cost(100)})
    assert not explained(before, accounts({F: Cost(1.05, code="new"), G: Cost(100)})).parts
    (part,) = explained(before, accounts({F: Cost(1.05, code="new"), G: Cost(110)})).parts
    assert part.function == G


def test_callers_that_call_more_often_are_named() -> None:
    before = accounts({F: Cost(100, 2)}, callers={F: {G: 1.0, H: 1.0}})
    after = accounts({F: Cost(150, 3)}, callers={F: {G: 1.0, H: 2.0}})
    assert words(before, after) == [
        f"+50: `{F}` is called 3 instead of 2 times per task, by `h` (+1)"
    ]


def test_small_and_uncertain_parts_are_summed() -> None:
    before = accounts({F: Cost(100, 1), G: Cost(100, 1), H: Cost(100, 1)})
    after = accounts({F: Cost(200, 1), G: Cost(101, 1), H: Cost(130, 1, error=40)})
    explanation = explained(before, after)
    shown = top_parts(explanation)
    assert [part.function for part in shown] == [F]
    assert others(explanation, shown) == "+31: 2 other functions"


def test_an_uncertain_part_before_a_certain_one_is_among_the_others() -> None:
    before = accounts({F: Cost(100, 1), G: Cost(100, 1)})
    after = accounts({F: Cost(140, 1, error=60), G: Cost(120, 1, error=10)})
    explanation = explained(before, after)
    shown = top_parts(explanation)
    assert [part.function for part in shown] == [G]
    assert others(explanation, shown) == "+40: 1 other function"


OLD = """\
def f(x):
    \"\"\"Do it.\"\"\"
    y = x
    return y
"""
NEW = """\
def f(x):
    \"\"\"Do it.

    Carefully.
    \"\"\"
    y = x
    # Look again.
    for each in x:
        y += each
    return y
"""


def test_new_lines_with_code_explain_a_dearer_function() -> None:
    change = source_change(Source("a.py", 10, OLD), Source("b.py", 20, NEW), None, None)
    assert change.places == (Place(27, 28, is_new=True),)
    assert not change.is_same
    assert [line.after for line in change.lines if line.before is None][-2:] == [27, 28]


def test_counted_lines_explain_it_better() -> None:
    one, other = Source("a.py", 10, OLD), Source("b.py", 20, NEW)
    change = source_change(one, other, {12: 2, 13: 2}, {25: 7, 27: 10, 28: 30, 29: 2})
    assert change.places == (
        Place(27, 28, is_new=True, more=40),
        Place(25, 25, is_new=False, more=5),
    )


def test_lines_of_the_same_source_that_ran_more_often_are_found() -> None:
    same = Source("a.py", 10, OLD)
    change = source_change(same, same, {12: 2, 13: 2}, {12: 2, 13: 4})
    assert change.is_same
    assert change.places == (Place(13, 13, is_new=False, more=2),)
    assert [line.after for line in change.lines] == [10, 11, 12, 13]


@pytest.mark.parametrize("start", [5, 100, 300])
def test_lines_are_left_out_between_lines_of_one_source_wherever_the_other_has_them(
    start: int,
) -> None:
    texts = ["def f(x):", *(f"    x += {number}" for number in range(30)), "    return x"]
    old = "\n".join(texts)
    new = old.replace("x += 2\n", "x -= 2\n").replace("x += 20", "x -= 20")
    change = source_change(Source("a.py", 100, old), Source("a.py", start, new), None, None)
    gaps = [line.text for line, is_next in source_lines(change, 100) if not is_next]
    assert gaps == ["    x += 17"]


def test_a_source_without_an_earlier_one_has_no_new_lines() -> None:
    change = source_change(None, Source("b.py", 20, NEW), None, None)
    assert change.places == ()
    assert all(line.before is None for line in change.lines)


def test_a_source_that_one_side_lacks_is_not_said_to_be_new() -> None:
    before = accounts({F: Cost(100, 1)})
    after = accounts({F: Cost(140, 1)}, sources={F: Source("b.py", 20, NEW)})
    (part,) = explained(before, after).parts
    assert part.source is None
    (part,) = explained(accounts({}), after).parts
    assert part.source is not None


@pytest.mark.parametrize("mark", ["\f", "# \u2028"])
def test_what_only_python_strings_take_for_the_end_of_a_line_moves_no_line(mark: str) -> None:
    before = Source("a.py", 10, f"def f():\n    a = 1\n{mark}\n    return a\n")
    after = replace(before, text=before.text.replace("return", "b = 2\n    return"))
    (place,) = source_change(before, after, None, None).places
    assert (place.first, place.last) == (13, 13)


@given(st.text(alphabet='fx():\n  #"=', max_size=60), st.integers(1, 10**6))
def test_any_text_has_code_lines_of_its_own(text: str, line: int) -> None:
    source = Source("a.py", line, text)
    count = len(text.splitlines())
    assert code_lines(source) <= set(range(line, line + count + 1))


@pytest.mark.parametrize("text", ["(" * 10**4, "-" * 10**6 + "1", "a\0b", "a = 'cut off"])
def test_all_lines_of_what_is_no_source_of_python_count(text: str) -> None:
    assert code_lines(Source("a.py", 3, text)) == {3}


def test_a_part_without_counted_calls_tells_its_cost() -> None:
    part = Part(F, "scheduler", Cost(1e-4), Cost(3e-4, error=1e-5))
    explanation = Explanation("t", "cputime", "cpu", 1e-3, 1.2e-3, (part,))
    assert (
        sentence(explanation, part)
        == f"+200 us (within 10 us): `{F}` costs 300 us instead of 100 us"
    )


def test_a_sampled_function_is_not_gone_for_lack_of_samples_of_its_own() -> None:
    """It may be in nearly all stacks; and a baseline leaves out what is in hardly any."""
    sides = (
        accounts({F: Cost(1e-4, share=0.96), G: Cost(2e-4, share=0.2)}),
        accounts({F: Cost(0.0, share=0.96), H: Cost(9e-4, share=0.3)}),
    )
    explanation = explain("test_x", "cputime", "cpu", *sides)
    assert [sentence(explanation, part) for part in top_parts(explanation)] == [
        f"+900 us: `{H}` was in next to no sample before",
        f"-200 us: `{G}` is in next to no sample now",
        f"-100 us: `{F}` costs 0 us instead of 100 us",
    ]


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


def test_a_regression_is_explained_by_the_record_that_it_was_compared_with(tmp_path: Path) -> None:
    """A baseline of two Pythons has another one, which was saved later."""
    newer = replace(ENVIRONMENT, scheduler_python="3.12.1")
    old = measured(counted({F: 100.0}), started_at="2026-01-01T00:00:00+00:00")
    other = measured(counted({F: 150.0}), started_at="2026-01-02T00:00:00+00:00", environment=newer)
    save("main", str(tmp_path), "run-1", [old])
    save("main", str(tmp_path), "run-2", [other])
    now = measured(counted({F: 110.0}), started_at="2026-01-03T00:00:00+00:00")
    comparisons = compare([old, other], [now]).comparisons
    kept = KeptTest(
        tmp_path / "run-3" / "test", replace(now, baseline="main", comparisons=comparisons)
    )
    (why,) = why_regressed([kept], Pairs(tmp_path / "run-3", str(tmp_path)))
    assert (why.before, why.after) == (100.0, 110.0)


def test_calls_are_those_of_the_tasks_of_the_window_that_counted_them() -> None:
    """The body runs once more for each backend that disturbs, and may make other tasks then."""
    of_c_too, calls = counted({F: 9.0}, metric="instructions"), counted({F: 2.0}, metric="calls")
    more = counted({F: 2.0}, metric="calls", tasks=1500)
    for other in (calls, more):
        side = KeptSide(measured(of_c_too, other))
        known = accounts_of(side, of_c_too, "instructions").functions[F]
        assert (known.amount, known.calls) == (9.0, 2.0)


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
