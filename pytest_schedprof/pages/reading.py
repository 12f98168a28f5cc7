"""The directory of a run, read back: its record, those of its tests, and what was sampled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
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
from pytest_schedprof.storage.records import read_record
from pytest_schedprof.storage.runs import RUN

RESULT, AGAINST = "result.json", "against"

SAMPLES = ".speedscope.json"
"""Ending of files that hold samples, whichever backend wrote them."""


@dataclass(frozen=True, slots=True)
class TestFiles:
    """A test of a run, with its record if that could be read."""

    __test__ = False  # not a test class, whatever its name

    entry: TestEntry
    directory: Path
    result: Result | None
    problem: str = ""
    """Why there is no record; else empty."""

    @property
    def verdict(self) -> Verdict:
        """By what it is compared with now, if that is more than it was in its session."""
        return self.result.verdict if self.result else self.entry.verdict


@dataclass(frozen=True, slots=True)
class RunFiles:
    """One pytest session."""

    path: Path
    run: Run
    tests: tuple[TestFiles, ...]

    @property
    def results(self) -> tuple[Result, ...]:
        """Those that could be read."""
        return tuple(test.result for test in self.tests if test.result)


def read_run(path: Path) -> RunFiles:
    """A run with all its tests.

    Raises:
        ArtifactError: if its record cannot be read.
    """
    run = read_record(path / RUN, Run)
    return RunFiles(path, run, tuple(_test(path, entry) for entry in run.tests))


def _test(path: Path, entry: TestEntry) -> TestFiles:
    directory = path / entry.directory
    if not entry.directory:
        return TestFiles(entry, directory, None, "its artifacts could not be stored")
    try:
        return TestFiles(entry, directory, read_record(directory / RESULT, Result))
    except ArtifactError as error:
        return TestFiles(entry, directory, None, _told(error))


def read_side(directory: Path) -> Result | None:
    """What was measured on the other side of a test in turns, if it was one."""
    try:
        return read_record(directory / AGAINST / RESULT, Result)
    except ArtifactError:
        return None


@dataclass(frozen=True, slots=True)
class Sampled:
    """The busy samples of one backend, or why they are not to be had."""

    stacks: Counter[Stack]
    problem: str = ""


def read_samples(directory: Path, backend: BackendResult) -> Sampled:
    """All its files of the scheduler together."""
    files = [name for name in backend.artifacts if name.endswith(SAMPLES)]
    if backend.shares is None or not files:
        return Sampled(Counter(), f"{backend.backend} kept no samples")
    try:
        return Sampled(busy_stacks(_profiles(directory, files, backend.shares)))
    except (OSError, SchedprofError) as error:
        return Sampled(Counter(), _told(error))


def _profiles(directory: Path, files: list[str], shares: SampledShares) -> Iterator[SampleProfile]:
    names = Names(each.function for each in shares.functions)
    for file in files:
        content = read_speedscope((directory / file).read_bytes())
        yield name_frames(content, names, backend="", mode="")


def _told(error: Exception) -> str:
    return " ".join(str(error).removeprefix("schedprof: ").split())
