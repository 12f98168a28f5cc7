"""Read the directory of a run: its record, those of its tests, and their samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_schedprof.errors import ArtifactError, SchedprofError
from pytest_schedprof.formats.frames import name_frames
from pytest_schedprof.formats.speedscope import read_speedscope
from pytest_schedprof.model.profile import SampleProfile, Stack
from pytest_schedprof.model.result import BackendResult, Result, SampledShares
from pytest_schedprof.model.run import Run, TestEntry
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.pages.naming import Names
from pytest_schedprof.pages.tree import busy_stacks
from pytest_schedprof.storage.reading import inside, read_kept
from pytest_schedprof.storage.records import read_record
from pytest_schedprof.storage.run_directory import RESULT_FILE
from pytest_schedprof.storage.runs import read_run_record

AGAINST = "against"
"""Directory of the other side, beside the record of a test in turns."""

SAMPLES = ".speedscope.json"
"""Ending of the names of files with samples, whichever backend wrote them."""


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
        return TestFiles(entry, directory, None, _told(error))


def read_side(directory: Path) -> Result | None:
    """Return the record of the other side of a test in turns; None for other tests."""
    try:
        return read_record(directory / AGAINST / RESULT_FILE, Result)
    except ArtifactError:
        return None


@dataclass(frozen=True, slots=True)
class Sampled:
    """The busy samples of one backend, or why there are none."""

    stacks: Counter[Stack]
    problem: str = ""


def read_samples(directory: Path, backend: BackendResult) -> Sampled:
    """Read all files of one backend with samples of the scheduler."""
    files = [name for name in backend.artifacts if name.endswith(SAMPLES)]
    if backend.shares is None or not files:
        return Sampled(Counter(), f"{backend.backend} kept no samples")
    try:
        return Sampled(busy_stacks(_profiles(directory, files, backend.shares)))
    except SchedprofError as error:
        return Sampled(Counter(), _told(error))


def _profiles(directory: Path, files: list[str], shares: SampledShares) -> Iterator[SampleProfile]:
    names = Names(each.function for each in shares.functions)
    for file in files:
        content = read_speedscope(read_kept(inside(directory, file)))
        profile = name_frames(content, names, backend="", mode="")
        yield replace(profile, is_shared=shares.is_shared)


def _told(error: Exception) -> str:
    return " ".join(str(error).removeprefix("schedprof: ").split())
