"""Tests of reading backend options, from ini text or marker values to a frozen dataclass."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.model.options import FALSE, TRUE, Names, Seconds, read_options


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


def test_without_any_given_the_defaults_hold_and_python_values_are_taken_as_they_are() -> None:
    assert read() == Options()
    options = read(native=True, idle=False, extra=("--rate", "9"))
    assert options == Options(native=True, idle=False, extra=("--rate", "9"))


READ: dict[str, list[tuple[object, object]]] = {
    "native": [(value, True) for value in (*sorted(TRUE), "True", "YES", " on ", 1)],
    "idle": [(value, False) for value in (*sorted(FALSE), "False", "NO", " off ", 0)],
    "extra": [
        ("", ()),
        ("--one", ("--one",)),
        ("--one  --two", ("--one", "--two")),
        ("--one 'two words' \"three\"", ("--one", "two words", "three")),
        (["--one", "two words"], ("--one", "two words")),
        (("--rate", 9), ("--rate", "9")),
        ([], ()),
    ],
    "names": [(value, ("b", "c")) for value in ("b,c", " b , c,b", ["b", "c"], ("b", "c", "b"))],
    "every": [("500ms", 0.5), ("2s", 2), ("2", 2), (2, 2), (0.25, 0.25), ("1min", 60)],
}


@pytest.mark.parametrize("option", READ)
def test_values_are_read_from_text_and_from_python(option: str) -> None:
    values = [getattr(read(**{option: value}), option) for value, _ in READ[option]]
    assert values == [expected for _, expected in READ[option]]
    assert {type(value) for value in values} <= {bool, tuple, float}  # 1 is not True


REFUSED: dict[str, tuple[str, list[object]]] = {
    "native": ("true or false, got {!r}", ["maybe", "", "truee", 2, None, [], 1.5]),
    "names": ("names, separated by", ["", "b,,c", ",", [], [""], 5, None]),
    "every": ("a time such as 500ms", ["", "soon", "5 parsecs", "1e99", "nan", float("nan"), [1]]),
}


@pytest.mark.parametrize("option", REFUSED)
def test_other_values_are_refused_by_name(option: str) -> None:
    words, values = REFUSED[option]
    for value in values:
        with pytest.raises(SettingsError) as caught:
            read(**{option: value})
        begin = f"schedprof: option made-up.{option} must be {words.format(value)}"
        assert str(caught.value).startswith(begin)


def test_an_unknown_option_is_named_with_those_that_exist() -> None:
    with pytest.raises(SettingsError) as caught:
        read(nativ=True)
    assert str(caught.value) == (
        "schedprof: backend 'made-up' has no option 'nativ'; "
        "known: every, extra, idle, names, native"
    )
