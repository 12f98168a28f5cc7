"""Tests of reading backend options, from ini text or marker values to a frozen dataclass."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.model.options import Names, Seconds, read_options
from pytest_schedprof.model.words import FALSE, TRUE


@dataclass(frozen=True)
class Options:
    """Options with one field of each type."""

    native: bool = False
    idle: bool = True
    extra: tuple[str, ...] = ()
    names: Names = ("a",)
    every: Seconds | None = None


def read(**values: object) -> Options:
    return read_options(Options, "made-up", values)


def test_without_any_given_the_defaults_hold() -> None:
    assert read() == Options()


def test_python_values_are_taken_as_they_are() -> None:
    options = read(native=True, idle=False, extra=("--rate", "9"))
    assert options == Options(native=True, idle=False, extra=("--rate", "9"))


@pytest.mark.parametrize("word", [*sorted(TRUE), "True", "YES", " on "])
def test_words_for_true(word: str) -> None:
    assert read(native=word).native is True


@pytest.mark.parametrize("word", [*sorted(FALSE), "False", "NO", " off "])
def test_words_for_false(word: str) -> None:
    assert read(idle=word).idle is False


@pytest.mark.parametrize(("number", "expected"), [(1, True), (0, False)])
def test_one_and_zero_are_true_and_false(number: int, expected: bool) -> None:
    assert read(native=number).native is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", ()),
        ("--one", ("--one",)),
        ("--one  --two", ("--one", "--two")),
        ("--one 'two words' \"three\"", ("--one", "two words", "three")),
        (["--one", "two words"], ("--one", "two words")),
        (("--rate", 9), ("--rate", "9")),
        ([], ()),
    ],
)
def test_words_come_as_text_or_as_a_list(value: object, expected: tuple[str, ...]) -> None:
    assert read(extra=value).extra == expected


@pytest.mark.parametrize("value", ["b,c", " b , c,b", ["b", "c"], ("b", "c", "b")])
def test_names_come_with_commas_or_as_a_list(value: object) -> None:
    assert read(names=value).names == ("b", "c")


@pytest.mark.parametrize("value", ["", "b,,c", ",", [], [""], 5, None])
def test_what_is_no_list_of_names_is_refused_by_name(value: object) -> None:
    with pytest.raises(SettingsError, match=r"option made-up\.names must be names, separated by"):
        read(names=value)


@pytest.mark.parametrize(
    ("value", "expected"), [("500ms", 0.5), ("2s", 2), ("2", 2), (2, 2), (0.25, 0.25), ("1min", 60)]
)
def test_times_come_with_a_unit_or_as_seconds(value: object, expected: float) -> None:
    assert read(every=value).every == expected


@pytest.mark.parametrize("value", ["", "soon", "5 parsecs", "1e99", "nan", float("nan"), [1]])
def test_what_is_no_time_is_refused_by_name(value: object) -> None:
    with pytest.raises(SettingsError, match=r"option made-up\.every must be a time such as 500ms"):
        read(every=value)


def test_an_unknown_option_is_named_with_those_that_exist() -> None:
    with pytest.raises(SettingsError) as caught:
        read(nativ=True)
    assert str(caught.value) == (
        "schedprof: backend 'made-up' has no option 'nativ'; "
        "known: every, extra, idle, names, native"
    )


@pytest.mark.parametrize("value", ["maybe", "", "truee", 2, None, [], 1.5])
def test_what_is_neither_true_nor_false_is_refused_by_name(value: object) -> None:
    with pytest.raises(SettingsError) as caught:
        read(native=value)
    assert str(caught.value) == (
        f"schedprof: option made-up.native must be true or false, got {value!r}"
    )


@pytest.mark.parametrize("value", ["an 'open quote", "back\\", 3, None, True, {"a": 1}])
def test_what_is_no_list_of_words_is_refused_by_name(value: object) -> None:
    with pytest.raises(SettingsError) as caught:
        read(extra=value)
    assert str(caught.value) == (
        f"schedprof: option made-up.extra must be a list of words, got {value!r}"
    )


def test_one_wrong_option_among_right_ones_is_found() -> None:
    with pytest.raises(SettingsError, match=r"made-up\.idle"):
        read(native=True, idle="perhaps", extra="--one")
