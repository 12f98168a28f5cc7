"""Finds and reads the ring of a run that a black box wrote."""

from __future__ import annotations

from pathlib import Path

from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.formats.ring import read_ring
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.ring import KeptRing
from pytest_schedprof.storage.reading import inside, read_kept

KIND = "blackbox"
"""The kind of evidence that the ring's figures are."""


def ring_in(directory: Path, result: Result) -> KeptRing | None:
    """Return the ring from a test's directory; None of other tests, or if it cannot be read."""
    names = [name for each in result.evidence if each.kind == KIND for name in each.artifacts]
    if not names:
        return None
    try:
        return read_ring(read_kept(inside(directory, names[0])))
    except SchedprofError:
        return None
