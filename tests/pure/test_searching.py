"""Tests of the search: it finds the planted version with few measurements, whatever is skipped."""

from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.model.comparison import Change, Comparison, Outcome, Report
from pytest_schedprof.searching.places import files_of, lines_of
from pytest_schedprof.searching.search import Answer, Search
from pytest_schedprof.searching.target import Target, moved_functions, target_of

WRONG_SUSPICION = 6
"""Measurements that a wrong suspicion costs at most."""


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, int, dict[int, float]]:
    """The number of the last version, the first bad one, and what is suspected."""
    last = draw(st.integers(1, 300))
    suspicion = draw(st.dictionaries(st.integers(1, last), st.floats(0.001, 1000), max_size=5))
    return last, draw(st.integers(1, last)), suspicion


def searched(search: Search, first_bad: int, broken: frozenset[int] = frozenset()) -> Search:
    """Search as if each version were measured, and check that none is measured twice."""
    while (number := search.next()) is not None:
        assert search.good < number < search.bad
        assert number not in search.answers
        answer = Answer.BAD if number >= first_bad else Answer.GOOD
        search = search.with_answer(number, Answer.SKIP if number in broken else answer)
    return search


@given(histories())
def test_the_first_bad_version_is_found_with_few_measurements(
    history: tuple[int, int, dict[int, float]],
) -> None:
    last, first_bad, suspicion = history
    search = searched(Search(last, suspicion), first_bad)
    assert list(search.suspects) == [first_bad]
    allowed = ceil(log2(last)) + (WRONG_SUSPICION if suspicion else 0)
    assert len(search.answers) <= allowed


@given(st.integers(1, 1000), st.data())
def test_a_right_suspicion_takes_two_measurements(last: int, data: st.DataObject) -> None:
    first_bad = data.draw(st.integers(1, last))
    search = searched(Search(last, {first_bad: 1.0}), first_bad)
    assert list(search.suspects) == [first_bad]
    assert len(search.answers) <= 2


@given(histories(), st.sets(st.integers(1, 299)))
def test_skipped_versions_are_never_blamed_alone(
    history: tuple[int, int, dict[int, float]], skipped: set[int]
) -> None:
    last, first_bad, suspicion = history
    broken = frozenset(skipped) - {last}
    search = searched(Search(last, suspicion), first_bad, broken)
    suspects = list(search.suspects)
    assert first_bad in suspects
    assert suspects[-1] not in broken, "the last suspect is known to be bad"
    assert set(suspects[:-1]) <= broken, "of a range all but the last one were skipped"


@given(st.integers(40, 300), st.data())
def test_a_row_of_broken_versions_does_not_take_a_measurement_each(
    last: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(1, last // 2))
    broken = frozenset(range(start, start + last // 3))
    first_bad = data.draw(st.integers(1, last).filter(lambda each: each not in broken))
    search = searched(Search(last), first_bad, broken)
    if first_bad != start + last // 3:  # else any of them may be the first bad one
        assert len(search.answers) <= 3 * ceil(log2(last))


@given(histories(), st.sets(st.integers(1, 299)))
def test_earlier_answers_count(
    history: tuple[int, int, dict[int, float]], measured: set[int]
) -> None:
    last, first_bad, suspicion = history
    search = Search(last, suspicion)
    for number in measured:
        if number < last:
            answer = Answer.BAD if number >= first_bad else Answer.GOOD
            search = search.with_answer(number, answer)
    assert list(searched(search, first_bad).suspects) == [first_bad]


def change(
    metric: str, subject: str, before: float, after: float, outcome: Outcome = Outcome.REGRESSED
) -> Change:
    return Change(metric, subject, "", outcome, before, after, after - before, after - before)


def report(*changes: Change, reasons: tuple[str, ...] = ()) -> Report:
    return Report("a", "b", (Comparison("test", "counts", "", changes, 0, reasons),))


WHOLE = change("bytecodes", "", 1000, 1100)
CALLS = change("calls", "", 10, 12)
LARGE = change("bytecodes", "m:large", 500, 580)
SMALL = change("bytecodes", "m:small", 1, 21)
LESS = change("bytecodes", "m:less", 90, 60, Outcome.IMPROVED)


@pytest.mark.parametrize(
    ("changes", "metric", "function", "followed"),
    [
        ((LARGE, SMALL, WHOLE, CALLS), "", "", CALLS),
        ((LARGE, SMALL, WHOLE, CALLS), "bytecodes", "", WHOLE),
        ((SMALL, LARGE), "", "", LARGE),
        ((SMALL, LARGE, WHOLE), "", "m:s*", SMALL),
        ((LESS,), "", "", None),
        ((LARGE,), "calls", "", None),
    ],
)
def test_the_figure_that_is_followed(
    changes: tuple[Change, ...], metric: str, function: str, followed: Change | None
) -> None:
    target = target_of(report(*changes), metric, function)
    assert (target.change if target else None) == followed


@pytest.mark.parametrize(
    ("changes", "reasons", "answer"),
    [
        ((), (), Answer.GOOD),
        ((change("bytecodes", "", 1000, 1049),), (), Answer.GOOD),
        ((change("bytecodes", "", 1000, 1050),), (), Answer.BAD),
        ((change("bytecodes", "", 1000, 900, Outcome.IMPROVED),), (), Answer.GOOD),
        ((change("bytecodes", "", 1000, 1090, Outcome.UNDECIDED),), (), Answer.SKIP),
        ((CALLS,), (), Answer.GOOD),
        ((), ("the Pythons differ",), Answer.SKIP),
    ],
)
def test_a_version_is_bad_from_halfway_on(
    changes: tuple[Change, ...], reasons: tuple[str, ...], answer: Answer
) -> None:
    target = Target("test", "counts", WHOLE)
    assert target.answer(report(*changes, reasons=reasons)) is answer
    assert target.answer(Report("a", "b", ())) is Answer.SKIP, "the test gave nothing"


def test_functions_that_changed_count_by_what_they_cost() -> None:
    changes = report(CALLS, WHOLE, SMALL, LARGE, LESS, change("calls", "m:often", 1, 9))
    moved = moved_functions(changes, Target("test", "counts", CALLS))
    assert list(moved.items()) == [("m:large", 80), ("m:less", 30), ("m:small", 20)]


SOURCE = """
import functools

def plain(a):
    return a

class Outer:
    @functools.cache
    def method(self):
        def inner():
            return 1
        return inner

    class Inner:
        async def method(self):
            pass

if plain:
    def twice(): pass
else:
    def twice(): pass
"""


def test_lines_of_functions() -> None:
    names = {
        "plain": (4, 5),
        "Outer.method": (8, 12),
        "Outer.method.<locals>.inner": (10, 11),
        "Outer.Inner.method": (15, 16),
        "twice": (19, 21),
    }
    assert lines_of(SOURCE, names) == names
    assert lines_of(SOURCE, ["absent"]) == {}
    assert lines_of("def broken(:", ["broken"]) == {}


def test_files_of_a_module() -> None:
    assert files_of("a.b") == ("a/b.py", "a/b/__init__.py", "src/a/b.py", "src/a/b/__init__.py")
