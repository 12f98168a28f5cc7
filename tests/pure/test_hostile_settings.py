"""Tests of limits and option values with any text: a wrong one gives one line of our own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_schedprof.backends.pyspy import PySpyOptions
from pytest_schedprof.backends.viztracer import VizTracerOptions
from pytest_schedprof.clusters.options import check_cluster_options
from pytest_schedprof.errors import LimitError, SettingsError
from pytest_schedprof.judge.limits import MOST, parse_limit
from pytest_schedprof.measuring.options import OPTIONS
from pytest_schedprof.measuring.settings import read_value
from pytest_schedprof.model.metric import METRICS
from pytest_schedprof.model.options import read_options
from pytest_schedprof.virtual.behaviour import TRAITS

PROPERTY = settings(max_examples=150)
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


@settings(max_examples=400)
@given(SOUP | st.text(max_size=40))
def test_any_text_is_a_limit_within_bounds_or_one_line_of_our_own(text: str) -> None:
    try:
        limit = parse_limit(text)
    except LimitError as error:
        said(error)
    else:
        assert 0 <= limit.bound <= MOST
        assert 0 <= limit.factor <= MOST
        assert parse_limit(str(limit)) == limit


@pytest.mark.parametrize(
    "text",
    [
        f"bytecodes <= {DIGITS}",
        f"peak <= {DIGITS} GB",
        f"cpu <= baseline * {DIGITS}",
        f"cpu <= baseline + {DIGITS}us",
        f"growth(calls, a:b) <= {DIGITS}",
    ],
)
def test_a_limit_that_would_always_hold_is_refused(text: str) -> None:
    with pytest.raises(LimitError, match=r"expected a number of at most 1e\+15; found '9999"):
        parse_limit(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("transitions(@comm) <= 1", "'<=': transitions is of the whole scheduler and takes no"),
        ("peak (a:b) <= 1MB", "column 6: expected '<=': peak is of the whole scheduler and"),
        ("growth(transitions, @comm) <= 1", "')': transitions is of the whole scheduler and"),
    ],
)
def test_a_pattern_is_refused_where_the_metric_takes_none(text: str, words: str) -> None:
    with pytest.raises(LimitError) as caught:
        parse_limit(text)
    assert words in str(caught.value)


@PROPERTY
@pytest.mark.parametrize("name", [option.name for option in OPTIONS])
@given(raw=VALUES)
@example(raw=10**400)
@example(raw=DIGITS)
def test_any_value_of_an_option_is_read_or_refused_in_one_line(name: str, raw: object) -> None:
    try:
        read_value(name, raw, "a marker")
    except SettingsError as error:
        said(error)


def test_a_number_above_the_bound_of_all_is_told_with_the_bound() -> None:
    for raw in (10**400, DIGITS, 10**10):
        with pytest.raises(SettingsError, match="positive whole number of at most 1000000000, got"):
            read_value("rounds", raw, "a marker")
    with pytest.raises(SettingsError, match=r"seconds, at most 86400 \(a day\), got 1000"):
        read_value("timeout", 10**400, "a marker")


@PROPERTY
@pytest.mark.parametrize(
    ("kind", "backend", "name"),
    [
        (VizTracerOptions, "viztracer", "tracer_entries"),
        (VizTracerOptions, "viztracer", "min_duration"),
        (VizTracerOptions, "viztracer", "log_gc"),
        (PySpyOptions, "pyspy", "extra"),
    ],
)
@given(raw=VALUES)
def test_any_value_of_a_backends_option_is_read_or_refused(
    kind: type[Any], backend: str, name: str, raw: object
) -> None:
    try:
        read_options(kind, backend, {name: raw})
    except SettingsError as error:
        said(error)


@PROPERTY
@pytest.mark.parametrize("name", [*TRAITS, "tls"])
@given(text=TEXT)
def test_any_value_of_a_clusters_option_is_read_or_refused(name: str, text: str) -> None:
    try:
        check_cluster_options("simulated", {name: text})
    except SettingsError as error:
        said(error)
