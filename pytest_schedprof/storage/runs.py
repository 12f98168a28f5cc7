"""Find runs that commands name: a run, a directory of runs, or its `latest`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_schedprof.errors import ArtifactError, SettingsError
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import Run, TestEntry
from pytest_schedprof.storage.places import Folder
from pytest_schedprof.storage.reading import inside, read_kept
from pytest_schedprof.storage.records import decode, entry_of, read_record
from pytest_schedprof.storage.run_directory import RESULT_FILE, RUN_FILE

LATEST = "latest"

NAMED = 10
"""Names that an error message lists at most."""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run and its directory."""

    path: Path
    record: Run

    def test(self, name: str) -> KeptTest:
        """Return the test of that ID, or the only one whose ID contains that text.

        Raises:
            SettingsError: if there is none or more than one; lists the tests.
            ArtifactError: if its record cannot be read.
        """
        entry = self._entry(name)
        if not entry.directory:
            raise ArtifactError(
                f"schedprof: {entry.test_id} has no artifacts in {str(self.path)!r}"
            )
        return read_test(inside(self.path, entry.directory))

    def results(self) -> list[Result]:
        """Return the results of all tests.

        Raises:
            ArtifactError: if a record cannot be read.
        """
        return [each.result for each in self.tests()]

    def tests(self) -> list[KeptTest]:
        """Return all tests that have artifacts.

        Raises:
            ArtifactError: if a record cannot be read.
        """
        names = [each.directory for each in self._entries().values() if each.directory]
        return [read_test(inside(self.path, name)) for name in names]

    def _entries(self) -> dict[str, TestEntry]:
        """Return the tests by ID; of several attempts at a test the last one."""
        return {each.test_id: each for each in self.record.tests}

    def _entry(self, name: str) -> TestEntry:
        entries = self._entries()
        if name in entries:
            return entries[name]
        found = [test_id for test_id in entries if name in test_id]
        if len(found) == 1:
            return entries[found[0]]
        if found:
            raise SettingsError(f"schedprof: {name!r} is ambiguous: {_listed(found)}")
        raise SettingsError(
            f"schedprof: no test {name!r} in {str(self.path)!r}; known: {_listed(list(entries))}"
        )


@dataclass(frozen=True, slots=True)
class KeptTest:
    """A test's record and the directory of its artifacts."""

    path: Path
    result: Result

    def artifacts(self, backend: str | None = None) -> list[str]:
        """Return the names of the scheduler's files, of all backends or of one.

        Raises:
            SettingsError: if the test was not recorded with it; lists the backends.
        """
        known = [each.backend for each in self.result.backends]
        if backend is not None and backend not in known:
            raise SettingsError(
                f"schedprof: {self.result.test_id} was not recorded with {backend!r}, "
                f"only with {_listed(known)}"
            )
        chosen = [each for each in self.result.backends if backend in (None, each.backend)]
        return [name for each in chosen for name in each.artifacts]

    def read(self, name: str) -> bytes:
        """Return the content of an artifact.

        Raises:
            ArtifactError: if it cannot be read.
        """
        return read_kept(inside(self.path, name))


def read_test(path: Path) -> KeptTest:
    """Return the test whose artifacts are in a directory.

    Raises:
        ArtifactError: if its record cannot be read.
    """
    return KeptTest(path, read_record(path / RESULT_FILE, Result))


def find_run(place: Path) -> KeptRun:
    """Return the run at a place: the directory itself, or the newest run below it.

    Raises:
        ArtifactError: if there is no run, or its record cannot be read.
    """
    place = place if place.name else place.absolute()  # `.` has neither a name nor a parent
    if os.path.exists(place / RUN_FILE):  # unlike a method of Path it takes names of any length
        return KeptRun(place, read_run_record(place))
    directory = place.parent if place.name == LATEST and not os.path.exists(place) else place
    runs = runs_in(directory)
    if not runs:
        raise ArtifactError(
            f"schedprof: no run in {str(directory)!r}: give the directory of a run, or the one "
            "that --schedprof-dir named"
        )
    return runs[-1]


def last_records(directory: Path, count: int) -> list[Run]:
    """Return the records of the newest runs, the newest last; runs sort by their names.

    Runs whose session has not ended are left out: they have no figures.
    """
    files = sorted(directory.glob(f"*/{RUN_FILE}"), key=lambda file: file.parent.name)[-count:]
    records = []
    for file in files:
        with suppress(ArtifactError):
            records.append(read_record(file, Run))
    ended = [each for each in records if each.exit_status is not None]
    return sorted(ended, key=lambda each: each.started_at)


def read_run_record(directory: Path) -> Run:
    """Return the record of a run; of a session that has not ended, with the tests so far.

    Raises:
        ArtifactError: if it cannot be read.
    """
    return with_tests(read_record(directory / RUN_FILE, Run), Folder(str(directory)))


def with_tests(run: Run, folder: Folder) -> Run:
    """Return the record of a run; of a session that has not ended, with the tests so far.

    Each test's record is written as the test ends, run.json with all tests as the session ends.
    """
    if run.exit_status is not None:
        return run
    found = []
    with suppress(ArtifactError):  # the place cannot be listed
        for file in folder.files(f"tests/*/{RESULT_FILE}"):
            with suppress(ArtifactError):
                found.append((decode(file.read(), file.place, Result), file.parent.name))
    found.sort(key=lambda each: each[0].started_at)
    return replace(run, tests=tuple(entry_of(result, f"tests/{name}") for result, name in found))


def unreported(run: Path, reported: Collection[str]) -> list[tuple[Path, Result]]:
    """Return tests whose records are stored, but whose directories are not among the reported."""
    names = {Path(each).name for each in reported}
    found = []
    for directory in (run / "tests").glob("*"):
        if directory.name not in names:
            with suppress(ArtifactError):
                found.append((directory, read_record(directory / RESULT_FILE, Result)))
    return sorted(found, key=lambda each: each[1].started_at)


def runs_in(directory: Path) -> list[KeptRun]:
    """Return the runs directly below a directory, the newest last."""
    return sorted(_runs_in(directory), key=lambda each: (each.record.started_at, each.path.name))


def _runs_in(directory: Path) -> Iterator[KeptRun]:
    for file in directory.glob(f"*/{RUN_FILE}"):
        try:
            yield KeptRun(file.parent, read_run_record(file.parent))
        except ArtifactError:
            continue  # of another release, or incomplete; naming it gives an error


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more or "none"
