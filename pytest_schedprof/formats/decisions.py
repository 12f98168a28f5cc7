"""Read `decisions.json`, what the agent recorded of a cluster in virtual time."""

from __future__ import annotations

from dataclasses import fields

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.model.decisions import NOBODY, Decided

MOST = 10**15
"""Largest number of microseconds or bytes: 31 years, a petabyte."""


def read_decisions(content: bytes) -> Decided:
    """Parse a file of decisions.

    Raises:
        FormatError: if it is none.
    """
    try:
        found = msgspec.json.decode(content, type=Decided)
    except UNREADABLE as error:
        raise FormatError(f"schedprof: not a file of decisions: {error}") from error
    if fault := _fault(found):
        raise FormatError(f"schedprof: not a file of decisions: {fault}")
    return found


def _fault(found: Decided) -> str:
    """Return what keeps the columns from being read together; empty if nothing does."""
    for table in (found.choices, found.tasks, found.transfers, found.held):
        columns = [getattr(table, each.name) for each in fields(table)]
        if len({len(each) for each in columns}) > 1:
            return "columns of different lengths"
        numbers = [each for column in columns for each in column if isinstance(each, int)]
        if numbers and max(map(abs, numbers)) > MOST:
            return f"a number above {MOST:g}"
    for column, names in found.numbers():
        if column and not 0 <= min(column) <= max(column) < names:
            return "a number that has no name"
    others = found.choices.other
    if others and not NOBODY <= min(others) <= max(others) < len(found.workers):
        return "a number that has no name"
    return ""
