"""Remove recordings of a test that nobody needs to look at: it passed, and nothing changed.

The record has all that the verdict was judged by, and all that a later session is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.presentation.changes import NEWS

UNREMARKABLE = ("passed", "skipped")


def is_remarkable(result: Result) -> bool:
    """Whether somebody may want to look at what was recorded of the test."""
    changed = (change.outcome in NEWS for each in result.comparisons for change in each.changes)
    is_calm = result.outcome in UNREMARKABLE and result.verdict is Verdict.PASS
    return not is_calm or any(changed)


def trimmed(result: Result, directory: Path, most: int) -> Result:
    """Remove the files of backends that are too large; return the record without them.

    The files of a backend belong together. Those of the smallest are kept first, since a trace of
    all calls takes a thousand times the room of all samples.

    Args:
        result: of one side of a test.
        directory: of its files.
        most: bytes that may be kept.
    """
    sizes = {each.backend: _size(each, directory) for each in result.backends}
    left_out: dict[str, int] = {}
    for backend, size in sorted(sizes.items(), key=lambda each: each[1]):
        most -= size
        if most < 0 and size:
            left_out[backend] = size
    backends = (_without(each, directory, left_out.get(each.backend)) for each in result.backends)
    return replace(result, backends=tuple(backends))


def _without(backend: BackendResult, directory: Path, size: int | None) -> BackendResult:
    if size is None:
        return backend
    for file in _files(backend, directory):
        with suppress(OSError):  # what cannot be removed only takes room
            file.unlink()
    targets = tuple(replace(each, artifacts=()) for each in backend.targets)
    return replace(backend, artifacts=(), targets=targets, left_out=size)


def _size(backend: BackendResult, directory: Path) -> int:
    total = 0
    for file in _files(backend, directory):
        with suppress(OSError):
            total += file.stat().st_size
    return total


def _files(backend: BackendResult, directory: Path) -> Iterator[Path]:
    yield from (directory / name for name in backend.artifacts)
    yield from (directory / name for each in backend.targets for name in each.artifacts)
