"""Find runs that commands name: a run, a directory of runs, or its `latest`."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from pytest_schedprof.errors import ArtifactError, SchedprofError, SettingsError
from pytest_schedprof.formats.counted import read_decisions
from pytest_schedprof.model.decisions import Decided
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.run import Run, TestEntry
from pytest_schedprof.store.places import Folder, inside, read_kept
from pytest_schedprof.store.records import Record, decode, entry_of, read_record
from pytest_schedprof.store.run_directory import RESULT_FILE, RUN_FILE

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


RUNNING_S = 24 * 3600.0
"""A session that wrote nothing for so long has been killed."""


def removable(directory: Path, keep: int) -> list[KeptRun]:
    """Return all runs but the newest so many, the oldest first; the newest one always stays.

    Runs whose directory was renamed or is a link are left alone: a user did that on purpose. Runs
    whose session may still be running neither count nor are removed.
    """
    latest = (directory / LATEST).resolve()
    mine = [each for each in runs_in(directory) if _is_ours(each) and not _may_be_running(each)]
    old = mine[: -max(keep, 1)]
    return [each for each in old if each.path.resolve() != latest]


def _is_ours(run: KeptRun) -> bool:
    return run.path.name == run.record.run_id and not run.path.is_symlink()


def _may_be_running(run: KeptRun) -> bool:
    """Whether the session has not said that it ended, and wrote a file not long ago."""
    if run.record.exit_status is not None:
        return False
    written = (each.lstat().st_mtime for each in _files(run.path))
    return time.time() - max(written, default=0.0) < RUNNING_S


def size(run: KeptRun) -> int:
    """Return the total size of a run's files in bytes."""
    total = 0
    for file in _files(run.path):
        with suppress(FileNotFoundError):  # another process removes it too
            total += file.lstat().st_size
    return total


def _files(path: Path) -> Iterator[Path]:
    return (each for each in path.rglob("*") if each.is_symlink() or each.is_file())


def remove(run: KeptRun) -> None:
    """Remove a run, its record last, so that an interrupted removal can be repeated.

    Raises:
        ArtifactError: if it cannot be removed.
    """
    try:
        for each in run.path.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            elif each.name != RUN_FILE:
                each.unlink()
        shutil.rmtree(run.path)
    except OSError as error:
        raise ArtifactError(
            f"schedprof: cannot remove {str(run.path)!r}: {error.strerror} ({error.filename})"
        ) from error


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
