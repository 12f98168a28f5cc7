"""A run with the records of all its tests, as far as these can be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import Run, TestEntry
from pytest_schedprof.store.places import inside
from pytest_schedprof.store.records import read_record
from pytest_schedprof.store.run_directory import AGAINST, RESULT_FILE
from pytest_schedprof.store.runs import KeptTest, read_run_record


def reason_of(error: Exception) -> str:
    """Return what an error says, in one line of a page."""
    return " ".join(str(error).removeprefix("schedprof: ").split())


@dataclass(frozen=True, slots=True)
class TestFiles:
    """A test of a run, with its record if it can be read."""

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


@dataclass(frozen=True, slots=True)
class RunFiles:
    """One pytest session."""

    path: Path
    run: Run
    tests: tuple[TestFiles, ...]

    @property
    def results(self) -> tuple[Result, ...]:
        """The records that can be read."""
        return tuple(test.result for test in self.tests if test.result)

    def kept_tests(self) -> Iterator[KeptTest]:
        """Yield the tests whose records can be read."""
        return (KeptTest(test.directory, test.result) for test in self.tests if test.result)


def read_run(path: Path) -> RunFiles:
    """Read a run with all its tests.

    Raises:
        ArtifactError: if its record cannot be read.
    """
    run = read_run_record(path)
    return RunFiles(path, run, tuple(_test(path, entry) for entry in run.tests))


def _test(path: Path, entry: TestEntry) -> TestFiles:
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
