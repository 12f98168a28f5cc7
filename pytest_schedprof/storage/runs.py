"""Runs on this machine, as commands name them: a run, a directory of runs, or its `latest`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_schedprof.errors import ArtifactError, SettingsError
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import Run, TestEntry
from pytest_schedprof.storage.records import read_record

LATEST = "latest"
RUN, RESULT = "run.json", "result.json"

MOST_NAMED = 10
"""Tests that an error names."""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run and where it is."""

    path: Path
    record: Run

    def test(self, name: str) -> KeptTest:
        """The test of that ID, or the only one whose ID holds that text.

        Raises:
            SettingsError: names the tests there are.
            ArtifactError: if its record cannot be read.
        """
        entry = self._entry(name)
        if not entry.directory:
            raise ArtifactError(
                f"schedprof: {entry.test_id} left no artifacts in {str(self.path)!r}"
            )
        path = self.path / entry.directory
        return KeptTest(path, read_record(path / RESULT, Result))

    def results(self) -> list[Result]:
        """Of all tests.

        Raises:
            ArtifactError: if one cannot be read.
        """
        kept = [self.path / each.directory for each in self._entries().values() if each.directory]
        return [read_record(path / RESULT, Result) for path in kept]

    def _entries(self) -> dict[str, TestEntry]:
        """By ID: of several attempts at a test the last."""
        return {each.test_id: each for each in self.record.tests}

    def _entry(self, name: str) -> TestEntry:
        entries = self._entries()
        if name in entries:
            return entries[name]
        found = [test_id for test_id in entries if name in test_id]
        if len(found) == 1:
            return entries[found[0]]
        if found:
            raise SettingsError(f"schedprof: {name!r} may be any of {_listed(found)}")
        raise SettingsError(
            f"schedprof: no test {name!r} in {str(self.path)!r}, but {_listed(list(entries))}"
        )


@dataclass(frozen=True, slots=True)
class KeptTest:
    """A test's record and the directory of its artifacts."""

    path: Path
    result: Result

    def artifacts(self, backend: str | None = None) -> list[str]:
        """Names of the scheduler's files: of all backends, or of one.

        Raises:
            SettingsError: names the backends there are.
        """
        known = [each.backend for each in self.result.backends]
        if backend is not None and backend not in known:
            raise SettingsError(
                f"schedprof: {self.result.test_id} was not recorded with {backend!r}, "
                f"but with {_listed(known)}"
            )
        chosen = [each for each in self.result.backends if backend in (None, each.backend)]
        return [name for each in chosen for name in each.artifacts]

    def read(self, name: str) -> bytes:
        """An artifact.

        Raises:
            ArtifactError: if it is gone.
        """
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            path = str(self.path / name)
            raise ArtifactError(f"schedprof: cannot read {path!r}: {error.strerror}") from error


def find_run(place: Path) -> KeptRun:
    """The run that is meant: itself, or the newest of those below.

    Raises:
        ArtifactError: if there is none, or its record cannot be read.
    """
    place = place if place.name else place.absolute()  # `.` has neither a name nor a parent
    if (place / RUN).exists():
        return KeptRun(place, read_record(place / RUN, Run))
    directory = place.parent if place.name == LATEST and not place.exists() else place
    runs = runs_in(directory)
    if not runs:
        raise ArtifactError(
            f"schedprof: no run in {str(directory)!r}: give the directory of one, or one that "
            "--schedprof-dir named"
        )
    return runs[-1]


def last_records(directory: Path, count: int) -> list[Run]:
    """Of the newest runs, as their names tell; the newest last."""
    files = sorted(directory.glob(f"*/{RUN}"), key=lambda file: file.parent.name)[-count:]
    records = []
    for file in files:
        with suppress(ArtifactError):
            records.append(read_record(file, Run))
    return sorted(records, key=lambda each: each.started_at)


def runs_in(directory: Path) -> list[KeptRun]:
    """Those directly below, the newest last; what holds no readable record is none."""
    return sorted(_runs_in(directory), key=lambda each: (each.record.started_at, each.path.name))


def _runs_in(directory: Path) -> Iterator[KeptRun]:
    for file in directory.glob(f"*/{RUN}"):
        try:
            yield KeptRun(file.parent, read_record(file, Run))
        except ArtifactError:
            continue  # of another release, or cut off: whoever names it is told


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more or "none"
