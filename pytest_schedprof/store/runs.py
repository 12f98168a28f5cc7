"""Find runs that commands name, and read them with the records of all their tests."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pytest_schedprof.errors import ArtifactError, SchedprofError, SettingsError
from pytest_schedprof.formats.counted import Decided, read_decisions
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.run import Run, TestEntry
from pytest_schedprof.store.places import Folder, inside, read_kept
from pytest_schedprof.store.records import Record, decode, entry_of, read_record
from pytest_schedprof.store.run_directory import AGAINST, RESULT_FILE, RUN_FILE, safe_name

LATEST = "latest"

NAMED = 10
"""Names that an error message lists at most."""


class KeptRun(Struct, frozen=True, dict=True):
    """A run at a path or URL. The results of all its tests may not fit into memory."""

    folder: Folder
    record: Run

    @property
    def path(self) -> Path:
        """The directory of a run that is not at a URL."""
        return Path(self.folder.place)

    @cached_property
    def files(self) -> Mapping[str, Sequence[Folder]]:
        """The files of its results by test; there may be several attempts at one."""
        files: dict[str, list[Folder]] = {}
        for entry in self.record.tests:
            if entry.directory:  # without one nothing could be stored
                file = self.folder / entry.directory / RESULT_FILE
                files.setdefault(entry.test_id, []).append(file)
        return files

    def test(self, name: str) -> KeptTest:
        """Return the test of that ID, or the only one whose ID contains that text.

        Raises:
            SettingsError: if there is none or more than one; lists the tests.
            ArtifactError: if its record cannot be read.
        """
        entries = self._entries()
        matching = [name] if name in entries else [entry for entry in entries if name in entry]
        if len(matching) > 1:
            raise SettingsError(f"schedprof: {name!r} is ambiguous: {_listed(matching)}")
        if not matching:
            known = _listed(list(entries))
            raise SettingsError(
                f"schedprof: no test {name!r} in {str(self.path)!r}; known: {known}"
            )
        entry = entries[matching[0]]
        if not entry.directory:
            raise ArtifactError(
                f"schedprof: {entry.test_id} has no artifacts in {str(self.path)!r}"
            )
        return read_test(inside(self.path, entry.directory))

    def tests(self) -> Iterator[KeptTest]:
        """Yield all tests that have artifacts.

        Raises:
            ArtifactError: if a record cannot be read.
        """
        names = [entry.directory for entry in self._entries().values() if entry.directory]
        return (read_test(inside(self.path, name)) for name in names)

    def attempts(self, test_id: str = "") -> Iterator[TestFiles]:
        """Yield the attempts at a test, or at all tests, each with its record if it can be read."""
        return (
            attempt(self.path, entry)
            for entry in self.record.tests
            if test_id in ("", entry.test_id)
        )

    def _entries(self) -> dict[str, TestEntry]:
        """Return the tests by ID; of several attempts at a test the last one."""
        return {entry.test_id: entry for entry in self.record.tests}


class KeptTest(Struct, frozen=True):
    """A test's record and the directory of its artifacts."""

    path: Path
    result: Result


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
        return KeptRun(Folder(str(place)), read_run_record(place))
    directory = place.parent if place.name == LATEST and not os.path.exists(place) else place
    runs = runs_in(directory)
    if not runs:
        raise ArtifactError(
            f"schedprof: no run in {str(directory)!r}: give the directory of a run, or the one "
            "that --schedprof-dir named"
        )
    return runs[-1]


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
    tests = []
    with suppress(ArtifactError):  # the place cannot be listed
        for file in folder.files(f"tests/*/{RESULT_FILE}"):
            with suppress(ArtifactError):
                tests.append((decode(file.read(), str(file), Result), file.parent.name))
    tests.sort(key=lambda test: test[0].started_at)
    return replace(run, tests=tuple(entry_of(result, f"tests/{name}") for result, name in tests))


def unreported(run: Path, reported: Collection[str]) -> list[tuple[Path, Result]]:
    """Return tests whose records are stored, but whose directories are not among the reported."""
    names = {Path(directory).name for directory in reported}
    tests = []
    for directory in (run / "tests").glob("*"):
        if directory.name not in names:
            with suppress(ArtifactError):
                tests.append((directory, read_record(directory / RESULT_FILE, Result)))
    return sorted(tests, key=lambda test: test[1].started_at)


def runs_in(directory: Path) -> list[KeptRun]:
    """Return the runs directly below a directory, the newest last."""
    runs = []
    for file in directory.glob(f"*/{RUN_FILE}"):
        # Of another release, or incomplete; naming it gives an error.
        with suppress(ArtifactError):
            runs.append(KeptRun(Folder(str(file.parent)), read_run_record(file.parent)))
    return sorted(runs, key=lambda run: (run.record.started_at, run.path.name))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more or "none"


class ResultsOfRuns(Mapping[str, Sequence[Result]]):
    """The results of runs by test, which are read when they are asked for."""

    def __init__(self, *runs: KeptRun, is_strict: bool = False) -> None:
        """Take runs.

        Args:
            is_strict: whether a record that cannot be read is an error; else it is left out.
        """
        self._runs, self._is_strict = runs, is_strict

    def __getitem__(self, test_id: str) -> list[Result]:
        files = [file for run in self._runs for file in run.files.get(test_id, ())]
        if not files:
            raise KeyError(test_id)
        results = []
        for file in files:
            with nullcontext() if self._is_strict else suppress(ArtifactError):
                results.append(decode(file.read(), str(file), Result))
        return results

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(test_id for run in self._runs for test_id in run.files))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Archive:
    """The runs at a place; records that cannot be read are listed in `skipped`."""

    def __init__(self, place: str) -> None:
        self._folder = Folder(place)
        self.skipped: list[str] = []

    def runs(self, *, branch: str = "", last: int = 0) -> list[KeptRun]:
        """Return the runs in the order of their commits, or of their own time without a commit.

        Args:
            branch: leave out runs of other branches.
            last: return only so many of the newest; 0 for all.

        Raises:
            ArtifactError: if the place cannot be listed, or no run in it can be read.
        """
        runs = self._runs()
        chosen = [item for item in runs if not branch or _branch(item[1]) == branch]
        if not chosen:
            known = ", ".join(sorted({_branch(run) or "none" for _, run in runs}))
            place = repr(str(self._folder))
            raise ArtifactError(
                f"schedprof: no run of branch {branch!r} in {place}; branches: {known}"
            )
        chosen.sort(key=lambda item: (item[0], item[1].record.started_at, item[1].record.run_id))
        return [run for _, run in chosen[-last:]]

    def _runs(self) -> list[tuple[datetime, KeptRun]]:
        """Return each run with its time."""
        folder = self._folder
        if not folder.exists():
            raise ArtifactError(f"schedprof: there is no {str(folder)!r}")
        runs = []
        for file in folder.below(RUN_FILE):
            if (record := _record(file, Run, self.skipped)) is None:
                continue
            run = with_tests(record, file.parent)
            time = run.commit.time if run.commit else run.started_at
            try:
                stored = KeptRun(file.parent, run)
                runs.append((datetime.fromisoformat(time).astimezone(), stored))
            except (ValueError, OverflowError):
                self.skipped.append(f"schedprof: {str(file)!r} is corrupt: {time!r} is not a time")
        if not runs:
            raise ArtifactError("\n".join([f"schedprof: no run in {str(folder)!r}", *self.skipped]))
        return runs


def results_of(
    runs: Iterable[KeptRun], test_id: str, skipped: list[str]
) -> Iterator[tuple[Run, Result]]:
    """Yield a test's results in these runs; add to `skipped` which records cannot be read."""
    for stored in runs:
        for file in stored.files.get(test_id, ()):
            if result := _record(file, Result, skipped):
                yield stored.record, result


def _record(file: Folder, kind: type[Record], skipped: list[str]) -> Record | None:
    try:
        return decode(file.read(), str(file), kind)
    except ArtifactError as error:
        skipped.append(" ".join(str(error).split()))
        return None


def _branch(stored: KeptRun) -> str:
    return stored.record.commit.branch if stored.record.commit else ""


RUNNING_S = 24 * 3600.0
"""A session that wrote nothing for so long has been killed."""


def removable(directory: Path, keep: int) -> list[KeptRun]:
    """Return all runs but the newest so many, the oldest first; the newest one always stays.

    Runs whose directory was renamed, is a link or has one beside it are left alone: a user did that
    on purpose. So are those that a baseline was saved of, which has no samples. Runs whose session
    may still be running neither count nor are removed.
    """
    needed = {file.stem for file in directory.glob("baselines/*/*.json")}
    linked = {path.resolve() for path in directory.glob("*") if path.is_symlink()}
    mine = [
        run
        for run in runs_in(directory)
        if run.path.name == run.record.run_id
        and not run.path.is_symlink()
        and not _may_be_running(run)
    ]
    return [
        run
        for run in mine[: -max(keep, 1)]
        if safe_name(run.record.run_id) not in needed and run.path.resolve() not in linked
    ]


def _may_be_running(run: KeptRun) -> bool:
    """Whether the session has not said that it ended, and wrote a file not long ago."""
    if run.record.exit_status is not None:
        return False
    try:
        files = (file for file in run.path.rglob("*") if file.is_symlink() or file.is_file())
        written = max((file.lstat().st_mtime for file in files), default=0.0)
    except FileNotFoundError:  # it was removed, or renamed, just now
        return True
    return time.time() - written < RUNNING_S


def remove(run: KeptRun) -> None:
    """Remove a run, its record last, so that an interrupted removal can be repeated.

    Raises:
        ArtifactError: if it cannot be removed.
    """
    try:
        for path in run.path.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != RUN_FILE:
                path.unlink()
        shutil.rmtree(run.path)
    except FileNotFoundError:
        return  # another session removes it too
    except OSError as error:
        raise ArtifactError(
            f"schedprof: cannot remove {str(run.path)!r}: {error.strerror} ({error.filename})"
        ) from error


def decided_in(directory: Path | None, backends: tuple[BackendResult, ...]) -> list[Decided]:
    """Return each round's decisions from a test's directory; none if any cannot be read."""
    names = [name for backend in backends if backend.hashes for name in backend.artifacts]
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


def reason_of(error: Exception) -> str:
    """Return what an error says, in one line of a page."""
    return " ".join(str(error).removeprefix("schedprof: ").split())


class TestFiles(Struct, frozen=True):
    """An attempt at a test of a run, with its record if it can be read."""

    __test__ = False  # not a test class, whatever its name

    entry: TestEntry
    directory: Path
    result: Result | None
    problem: str = ""
    """Why there is no record; else empty."""

    @property
    def verdict(self) -> Verdict:
        """The verdict, including comparisons that were added after the session."""
        return self.result.verdict if self.result else self.entry.verdict


def attempt(path: Path, entry: TestEntry) -> TestFiles:
    directory = path / entry.directory
    if not entry.directory:
        return TestFiles(entry, directory, None, "its artifacts could not be stored")
    try:
        record = read_record(inside(path, entry.directory) / RESULT_FILE, Result)
        return TestFiles(entry, directory, record)
    except ArtifactError as error:
        return TestFiles(entry, directory, None, reason_of(error))


def read_side(directory: Path) -> Result | None:
    """Return the record of the other side of a test in turns; None for other tests."""
    try:
        return read_record(directory / AGAINST / RESULT_FILE, Result)
    except ArtifactError:
        return None
