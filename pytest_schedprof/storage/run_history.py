"""Read all runs below a directory, or below any URL that fsspec can list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import Run
from pytest_schedprof.storage.places import Folder
from pytest_schedprof.storage.records import Record, decode
from pytest_schedprof.storage.run_directory import RESULT_FILE, RUN_FILE
from pytest_schedprof.storage.runs import with_tests


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run and those results of its tests that could be read."""

    run: Run
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    directory: Folder
    run: Run
    when: datetime


class Archive:
    """The runs at a place; records that cannot be read are listed in `skipped`."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.skipped: list[str] = []

    def runs(self, *, branch: str = "", last: int = 0) -> list[StoredRun]:
        """Return the runs in the order of their commits, or of their own time without a commit.

        Args:
            branch: leave out runs of other branches.
            last: return only so many of the newest; 0 for all.

        Raises:
            ArtifactError: if the place cannot be listed, or no run in it can be read.
        """
        found = self._found()
        chosen = [each for each in found if not branch or _branch(each.run) == branch]
        if not chosen:
            known = ", ".join(sorted({_branch(each.run) or "none" for each in found}))
            raise ArtifactError(
                f"schedprof: no run of branch {branch!r} in {self.place!r}; branches: {known}"
            )
        chosen.sort(key=lambda each: (each.when, each.run.started_at, each.run.run_id))
        return [StoredRun(each.run, tuple(self._results(each))) for each in chosen[-last:]]

    def _found(self) -> list[_Found]:
        folder = Folder(self.place)
        if not folder.exists():
            raise ArtifactError(f"schedprof: there is no {self.place!r}")
        found = [each for file in folder.below(RUN_FILE) if (each := self._run(file))]
        if not found:
            raise ArtifactError("\n".join([f"schedprof: no run in {self.place!r}", *self.skipped]))
        return found

    def _run(self, file: Folder) -> _Found | None:
        run = self._record(file, Run)
        if run is None:
            return None
        run = with_tests(run, file.parent)
        time = run.commit.time if run.commit else run.started_at
        try:
            return _Found(file.parent, run, datetime.fromisoformat(time).astimezone())
        except (ValueError, OverflowError):
            self.skipped.append(f"schedprof: {file.place!r} is corrupt: {time!r} is not a time")
            return None

    def _results(self, found: _Found) -> Iterator[Result]:
        for entry in found.run.tests:
            if entry.directory:  # without one nothing could be stored
                file = found.directory / entry.directory / RESULT_FILE
                if result := self._record(file, Result):
                    yield result

    def _record(self, file: Folder, kind: type[Record]) -> Record | None:
        try:
            return decode(file.read(), file.place, kind)
        except ArtifactError as error:
            self.skipped.append(" ".join(str(error).split()))
            return None


def _branch(run: Run) -> str:
    return run.commit.branch if run.commit else ""
