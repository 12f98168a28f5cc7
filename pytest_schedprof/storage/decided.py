"""Find and read what was recorded of a test's decisions."""

from __future__ import annotations

from pathlib import Path

from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.formats.decisions import read_decisions
from pytest_schedprof.model.decisions import Decided
from pytest_schedprof.model.result import BackendResult
from pytest_schedprof.storage.reading import inside, read_kept
from pytest_schedprof.storage.runs import find_run


def decided_in(directory: Path | None, backends: tuple[BackendResult, ...]) -> list[Decided]:
    """Return each round's decisions from a test's directory; none if any cannot be read."""
    names = [name for each in backends if each.hashes for name in each.artifacts]
    if directory is None:
        return []
    try:
        return [read_decisions(read_kept(inside(directory, name))) for name in names]
    except SchedprofError:
        return []


def decided_in_run(run: Path | None, test_id: str) -> list[Decided]:
    """Return each round's decisions of a test of a run; none if the run is gone."""
    if run is None:
        return []
    try:
        test = find_run(run).test(test_id)
    except SchedprofError:
        return []
    return decided_in(test.path, test.result.backends) if test.result.test_id == test_id else []
