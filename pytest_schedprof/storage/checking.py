"""Check a record beyond the types of its fields, so that nothing in it misleads its readers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from pytest_schedprof.model.metric import METRICS
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import BaselinePart, Run
from pytest_schedprof.storage.reading import is_below

MOST = 1e18
"""Largest number in a record: products of several are still far from what a float can hold."""

_LARGE = re.compile(rb"[0-9]{19}|[0-9][eE]\+?[0-9]{2}")
"""Characters that every number above `MOST` has; others have them too, as digits of a hash."""


def fault_of(content: bytes, record: Result | Run | BaselinePart) -> str:
    """Return what is wrong with a record that was decoded from the content; empty if nothing is."""
    return next(_faults(content, record), "")


def _faults(content: bytes, record: Result | Run | BaselinePart) -> Iterator[str]:
    if _LARGE.search(content) and max(map(abs, _numbers(msgspec.json.decode(content)))) > MOST:
        yield f"it holds a number above {MOST:g}"
    if isinstance(record, Run):
        names = (test.directory for test in record.tests if test.directory)
        yield from (f"{name!r} is outside of the run" for name in names if not is_below(name))
    results = record.results if isinstance(record, BaselinePart) else (record,)
    for result in results:
        if isinstance(result, Result):
            yield from _faults_of_result(result)


def _faults_of_result(result: Result) -> Iterator[str]:
    for name in _files(result):
        if not is_below(name):
            yield f"{name!r} is outside of the test's directory"
    for comparison in (*result.comparisons, *result.null):
        for change in comparison.changes:
            if change.metric not in METRICS:
                yield f"the metric {change.metric!r} is unknown to this release"


def _files(result: Result) -> Iterator[str]:
    for backend in result.backends:
        yield from backend.artifacts
        for target in backend.targets:
            yield from target.artifacts
    for evidence in result.evidence:
        yield from evidence.artifacts


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, (int, float)):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _numbers(each)
    elif isinstance(value, list):
        for each in value:
            yield from _numbers(each)
