"""Tests of the search: it finds the planted version with few measurements, whatever is skipped."""

from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.cli.bisect import Figure, figure_of, first_bad, is_release
from pytest_schedprof.model.comparison import Change, Comparison, Outcome, Report


@given(st.integers(1, 300), st.data(), st.sets(st.integers(1, 299)))
def test_the_first_bad_version_is_found_with_few_measurements(
    last: int, data: st.DataObject, skipped: set[int]
) -> None:
    first = data.draw(st.integers(1, last))
    measured: list[int] = []

    def is_bad(number: int) -> bool | None:
        measured.append(number)
        return None if number in skipped else number >= first

    suspects = first_bad(last, is_bad)
    assert first in suspects
    assert suspects[-1] == last or suspects[-1] not in skipped, "it is known to be bad"
    assert set(suspects[:-1]) <= skipped, "of a range all but the last one were skipped"
    assert len(set(measured)) == len(measured)
    assert len(measured) <= ceil(log2(last)) + len(skipped.intersection(measured))


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
    figure = figure_of(report(*changes), metric, function)
    assert (figure.change if figure else None) == followed


@pytest.mark.parametrize(
    ("changes", "reasons", "is_bad"),
    [
        ((), (), False),
        ((change("bytecodes", "", 1000, 1049),), (), False),
        ((change("bytecodes", "", 1000, 1050),), (), True),
        ((change("bytecodes", "", 1000, 900, Outcome.IMPROVED),), (), False),
        ((change("bytecodes", "", 1000, 1090, Outcome.UNDECIDED),), (), None),
        ((CALLS,), (), False),
        ((), ("the Pythons differ",), None),
    ],
)
def test_a_version_is_bad_from_halfway_on(
    changes: tuple[Change, ...], reasons: tuple[str, ...], is_bad: bool | None
) -> None:
    figure = Figure("test", "counts", WHOLE)
    value = figure.value(report(*changes, reasons=reasons))
    assert (None if value is None else figure.is_bad(value)) is is_bad
    assert figure.value(Report("a", "b", ())) is None, "the test gave nothing"


@pytest.mark.parametrize(
    ("version", "release", "expected"),
    [
        ("2026.1.0", "2026.1", True),  # pip installs the one for the other
        ("2026.1.1", "2026.1", False),
        ("2026.1.0+3.gabcdef0", "2026.1.0", False),
        ("unknown", "2026.1.0", False),
    ],
)
def test_a_release_may_be_named_without_its_last_zeros(
    version: str, release: str, expected: bool
) -> None:
    assert is_release(version, release) is expected
