"""Reads `blackbox.json`, the figures of a black box."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.model.ring import Figures, KeptRing

LAST = 4e9
"""Latest time that is believed, in seconds: in the year 2096."""

MOST = 10**15
"""Largest count that is believed."""


def read_ring(content: bytes) -> KeptRing:
    """Parse the figures.

    Raises:
        FormatError: if the bytes are no such file.
    """
    try:
        found = msgspec.json.decode(content, type=KeptRing)
    except UNREADABLE as error:
        raise FormatError(f"schedprof: not a file of a black box: {error}") from error
    if fault := _fault(found):
        raise FormatError(f"schedprof: not a file of a black box: {fault}")
    return found


def _fault(found: KeptRing) -> str:
    """Return what keeps the figures from being drawn; empty if nothing does."""
    if not found.slices:
        return "it has no slice"
    if not all(0 <= at <= LAST for at in _times(found)):
        return f"a time after {LAST:g}"
    if not all(0 <= number <= MOST for number in _numbers(found)):
        return f"a number that is negative or above {MOST:g}"
    return ""


def _times(found: KeptRing) -> Iterator[float]:
    for each in found.slices:
        yield from (each.begun.at, each.ended.at, *(event.at for event in each.events))


def _numbers(found: KeptRing) -> Iterator[float]:
    for each in found.slices:
        yield from (each.lag, each.stall, *_counts(each.begun), *_counts(each.ended))


def _counts(of: Figures) -> Iterator[float]:
    *counts, received = astuple(of)
    yield from (*counts, *received.values())
