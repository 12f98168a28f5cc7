"""Tests of values of options: what is read, and how anything else is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from pytest_schedprof.backends.pyspy import PySpyOptions
from pytest_schedprof.backends.viztracer import VizTracerOptions
from pytest_schedprof.clusters.options import check_cluster_options
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.measuring.options import OPTIONS
from pytest_schedprof.measuring.settings import read_value
from pytest_schedprof.model.metric import METRICS
from pytest_schedprof.model.options import FALSE, TRUE, Names, Seconds, read_options
from pytest_schedprof.virtual.behaviour import TRAITS


class Options(Struct, frozen=True):
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
        "schedprof: backend 'made-up' has no option 'nativ' (did you mean 'native'?); "
        "known: every, extra, idle, names, native"
    )


DIGITS = "9" * 400

WORDS = [
    *METRICS, *"()<=*?:@+,%.=", "<=", "baseline", "baseline * ", DIGITS, "0", "30", "1.5", "a:b",
    "@comm", "kB", "us", "pp", "\x1b[31m", "\n", "\0", "\udcff", "é", "²", "٣", "nan", "inf", "-1",
    "1e400", "workers:", "tcp://", "pyspy.", "uniform(1,2)", "ms", " ",
]  # fmt: skip
SOUP = st.lists(st.sampled_from(WORDS), max_size=8).map("".join)
TEXT = st.text(max_size=30) | SOUP
VALUES: st.SearchStrategy[Any] = (
    TEXT
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.none()
    | st.binary(max_size=5)
    | st.sampled_from([10**400, -(10**400), 10**5000, 2**1000])
    | st.lists(TEXT | st.integers(), max_size=3)
    | st.dictionaries(TEXT, TEXT, max_size=2)
)


def said(error: SettingsError) -> None:
    text = str(error)
    assert text.startswith("schedprof: ")
    assert text.isprintable()
    assert len(text) < 2000


def _read_backends(kind: type[Any], name: str, raw: object) -> None:
    read_options(kind, "a backend", {name: raw})


def _read_clusters(name: str, raw: object) -> None:
    if isinstance(raw, str):  # as it comes from the command line
        check_cluster_options("simulated", {name: raw})


READERS: list[Callable[[Any], object]] = [
    *(partial(read_value, option.name, source="a marker") for option in OPTIONS),
    *(
        partial(_read_backends, kind, name)
        for kind in (VizTracerOptions, PySpyOptions)
        for name in kind.__struct_fields__
    ),
    *(partial(_read_clusters, name) for name in (*TRAITS, "tls")),
]


@settings(max_examples=100)
@given(raw=VALUES)
@example(raw=10**400)
@example(raw=DIGITS)
def test_any_value_of_an_option_is_read_or_refused_in_one_line(raw: object) -> None:
    for read in READERS:
        try:
            read(raw)
        except SettingsError as error:
            said(error)


def test_a_number_above_the_bound_of_all_is_told_with_the_bound() -> None:
    for raw in (10**400, DIGITS, 10**10):
        with pytest.raises(SettingsError, match="positive whole number of at most 1000000000, got"):
            read_value("rounds", raw, "a marker")
    with pytest.raises(SettingsError, match=r"seconds, at most 86400 \(a day\), got 1000"):
        read_value("timeout", 10**400, "a marker")
