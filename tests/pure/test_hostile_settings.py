"""Tests of limits and option values with any text: a wrong one gives one line of our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_schedprof.backends.pyspy import PySpyOptions
from pytest_schedprof.backends.viztracer import VizTracerOptions
from pytest_schedprof.clusters.options import check_cluster_options
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.measuring.options import OPTIONS
from pytest_schedprof.measuring.settings import read_value
from pytest_schedprof.model.metric import METRICS
from pytest_schedprof.model.options import read_options
from pytest_schedprof.virtual.behaviour import TRAITS

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


def _read_option(name: str, raw: object) -> None:
    read_value(name, raw, "a marker")


def _read_backends(kind: type[Any], name: str, raw: object) -> None:
    read_options(kind, "a backend", {name: raw})


def _read_clusters(name: str, raw: object) -> None:
    if isinstance(raw, str):  # as it comes from the command line
        check_cluster_options("simulated", {name: raw})


READERS: list[Callable[[Any], object]] = [
    *(partial(_read_option, option.name) for option in OPTIONS),
    *(partial(_read_backends, VizTracerOptions, field.name) for field in fields(VizTracerOptions)),
    *(partial(_read_backends, PySpyOptions, field.name) for field in fields(PySpyOptions)),
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
