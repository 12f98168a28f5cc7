"""A directory of runs: the newest one, and those before it, which tell what is usual."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pytest_schedprof.errors import ArtifactError, BaselineError
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import Run
from pytest_schedprof.storage.places import Folder
from pytest_schedprof.storage.records import decode
from pytest_schedprof.storage.run_directory import RESULT_FILE, RUN_FILE

MOST_RUNS = 30
"""Runs that are read: older ones were measured of other code, or by a machine in another state."""

RunIn: TypeAlias = tuple[Folder, Run]
"""The directory of a run, and its record."""


@dataclass(frozen=True)
class EarlierRuns:
    """Runs of one directory; a test's results are read when they are asked for."""

    runs: Sequence[RunIn]

    def __call__(self, test_id: str) -> list[Result]:
        """Return the results of a test, without records that cannot be read."""
        found = []
        for folder, run in self.runs:
            for entry in run.tests:
                if entry.test_id == test_id and entry.directory:
                    file = folder / entry.directory / RESULT_FILE
                    with suppress(ArtifactError):  # the others tell what is usual as well
                        found.append(decode(file.read(), file.place, Result))
        return found


def runs_in(folder: Folder) -> list[RunIn]:
    """Return the runs of a directory of runs, in order of time; none if it is something else.

    Raises:
        ArtifactError: if a record cannot be read.
    """
    if folder.name.endswith(".json") or not folder.is_directory():
        return []
    if (folder / RUN_FILE).is_file() or (folder / RESULT_FILE).is_file():
        return []
    files = folder.files(f"*/{RUN_FILE}")
    found = [(each.parent, decode(each.read(), each.place, Run)) for each in files]
    return sorted(found, key=_age)


def _age(each: RunIn) -> tuple[bool, str]:
    """Sort key of runs: those whose session has not ended, which may be partial, come first."""
    return each[1].exit_status is not None, each[1].started_at


def runs_before(other: Path | None, runs: list[RunIn]) -> list[RunIn]:
    """Return the runs before another one if it is among them, else all of them.

    Raises:
        BaselineError: if it is the first one.
    """
    names = [folder.name for folder, _ in runs]
    if other is None or other.name not in names:
        return runs
    if not (before := runs[: names.index(other.name)]):
        raise BaselineError(f"schedprof: there is no run before {str(other)!r}")
    return before


def earlier_runs(runs: Sequence[RunIn]) -> EarlierRuns:
    """Return the runs before the newest one.

    Args:
        runs: in order of time. Those whose session has not ended are left out.
    """
    ended = [each for each in runs[:-1] if each[1].exit_status is not None]
    return EarlierRuns(ended[1 - MOST_RUNS :])
