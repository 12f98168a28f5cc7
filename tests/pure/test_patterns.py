"""Tests of function patterns, against a slow and obvious matcher."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_schedprof.model.profile import compile_pattern, has_wildcard

PROPERTY = settings(max_examples=100)

TRANSITION = "distributed.scheduler:SchedulerState._transition"


def matches(pattern: str, name: str) -> bool:
    return compile_pattern(pattern).fullmatch(name) is not None


def obviously_matches(pattern: str, name: str) -> bool:
    """Match by the definition: `*` is any run, `?` is one character, all else is literal."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(obviously_matches(pattern[1:], name[skip:]) for skip in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and obviously_matches(pattern[1:], name[1:])


@PROPERTY
@given(
    st.text("ab*?", max_size=8) | st.text("ab.:*?\n[(", max_size=6),
    st.text("ab", max_size=8) | st.text("ab.:\n[(", max_size=6),
)
def test_a_pattern_matches_what_its_definition_says(pattern: str, name: str) -> None:
    assert matches(pattern, name) == obviously_matches(pattern, name)
    assert has_wildcard(pattern) == bool({"*", "?"} & set(pattern))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "pattern",
    ["*" * 1000 + "x:y", "*a" * 1000 + "b", "*?" * 150 + "b", "*a?" * 80 + "*b", "a*" * 90 + "b"],
)
def test_a_hostile_pattern_is_as_fast_as_any(pattern: str) -> None:
    """Tried again and again, one of these would take longer than the tests have time."""
    assert not matches(pattern, "a" * 200)
    assert matches(pattern[:-1] + "*", "a" * 2000 + "x:")


@PROPERTY
@given(st.text(alphabet=st.characters(exclude_characters="*?")))
def test_a_pattern_without_wildcards_names_itself_alone(name: str) -> None:
    assert not has_wildcard(name)
    assert matches(name, name)
    assert not matches(name, name + "x")
    assert not matches(name, "x" + name)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (TRANSITION, TRANSITION, True),
        (TRANSITION, TRANSITION.replace(".", "x"), False),
        ("*_transition", TRANSITION, True),
        ("distributed.scheduler:*._transition?", TRANSITION + "s", True),
        ("distributed.scheduler:*._transition?", TRANSITION, False),
        ("a:f.<locals>.<lambda>", "a:f.<locals>.<lambda>", True),
        ("a:b[1]", "a:b1", False),
    ],
)
def test_patterns_of_real_functions(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected
