"""Tests of directory names for test IDs: unique, short, readable, within their directory."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_schedprof.store.run_directory import safe_name

PROPERTY = settings(max_examples=100)

HOSTILE = (
    "",
    ".",
    "..",
    "../../etc/passwd",
    "/",
    "/etc/passwd",
    "C:\\windows",
    "\\\\server\\share",
    "~",
    "-rf",
    ".hidden",
    "name.",
    "name ",
    "con",
    "nul.txt",
    "a/b",
    "a|b",
    "a b",
    "a\nb",
    "a\r\nb",
    "a\0b",
    "é" * 300,
    "e\u0301" * 300,
    "x" * 10_000,
    "\udcff",
    "test_[\udc80]",
    "\U0001f600",
    'tests/test_a.py::TestB::test_c[1-<x>:"*?]',
)

TWINS: tuple[Callable[[str], str], ...] = (
    str.swapcase,
    str.upper,
    lambda text: text.replace("/", "|"),
    lambda text: text.replace("/", "\\"),
    lambda text: text.replace("::", "-"),
    lambda text: text.replace(".", ".."),
    lambda text: text.replace("..", ""),
    lambda text: unicodedata.normalize("NFD", text),
    lambda text: text + "\n",
    lambda text: text + "\0",
    lambda text: text + " ",
    lambda text: text + ".",
    lambda text: text[:150],
    lambda text: text + "\udcff",
    lambda text: safe_name(text),
)
"""Functions that change an ID into another one, for which a careless slug would be the same."""

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))
TEST_IDS = st.one_of(
    ANY_TEXT,
    st.text(alphabet="aA/|.:-[]é\n", max_size=12),
    st.builds("tests/test_{}.py::test_{}[{}]".format, ANY_TEXT, ANY_TEXT, ANY_TEXT),
    st.sampled_from(HOSTILE),
)


def check(name: str) -> None:
    """Check that every file system accepts the name as a single path component."""
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*[A-Za-z0-9_]", name)
    assert len(name.encode("ascii")) <= 255
    assert Path(name).name == name


def test_hostile_ids_get_harmless_names_that_differ_without_regard_to_case() -> None:
    names = [safe_name(test_id) for test_id in HOSTILE]
    for name in names:
        check(name)
    assert len({name.casefold() for name in names}) == len(HOSTILE)


@PROPERTY
@given(TEST_IDS)
def test_any_id_gets_a_harmless_name(test_id: str) -> None:
    check(safe_name(test_id))


@PROPERTY
@given(TEST_IDS, TEST_IDS)
def test_two_ids_get_two_names_without_regard_to_case(one: str, other: str) -> None:
    same = safe_name(one).casefold() == safe_name(other).casefold()
    assert same == (one == other)


@PROPERTY
@given(TEST_IDS, st.sampled_from(TWINS))
def test_an_id_and_its_twin_get_two_names(test_id: str, twin: Callable[[str], str]) -> None:
    other = twin(test_id)
    if other != test_id:
        assert safe_name(test_id).casefold() != safe_name(other).casefold()


def test_a_person_recognises_the_test() -> None:
    name = safe_name("tests/test_a.py::TestB::test_c[1-x]")
    assert re.fullmatch(r"tests-test_a\.py-TestB-test_c-1-x-[0-9a-f]{12}", name)


def test_a_name_is_the_same_in_every_process_and_release() -> None:
    """Baselines and history are looked up by the name."""
    assert safe_name("tests/test_a.py::test_b") == "tests-test_a.py-test_b-9fb2811947a5"
    assert safe_name("é\udcff") == "test-3aef3ad56a25"


@pytest.mark.parametrize("test_id", ["", "é", "::", "...", "\0"], ids=ascii)
def test_an_id_of_which_nothing_can_be_kept_is_called_test(test_id: str) -> None:
    assert re.fullmatch(r"test-[0-9a-f]{12}", safe_name(test_id))
