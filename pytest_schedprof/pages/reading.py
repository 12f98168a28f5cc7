"""Read the directory of a run: its record, those of its tests, and their samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_schedprof.analysis.owners import is_waiting
from pytest_schedprof.errors import ArtifactError, SchedprofError
from pytest_schedprof.formats.frames import name_frames
from pytest_schedprof.formats.intake import IntakeFile, read_intake
from pytest_schedprof.formats.speedscope import read_speedscope
from pytest_schedprof.model.metric import INTAKE
from pytest_schedprof.model.profile import SampleProfile, Stack
from pytest_schedprof.model.result import BackendResult, Result, SampledShares
from pytest_schedprof.model.run import Run, TestEntry
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.pages.naming import Names
from pytest_schedprof.pages.tree import busy_stacks
from pytest_schedprof.storage.reading import inside, read_kept
from pytest_schedprof.storage.records import read_record
from pytest_schedprof.storage.run_directory import AGAINST, RESULT_FILE
from pytest_schedprof.storage.runs import KeptTest, read_run_record

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


@dataclass(frozen=True, slots=True)
class Sampled:
    """The busy samples of one backend, or why there are none."""

    stacks: Counter[Stack]
    problem: str = ""
    profiles: tuple[SampleProfile, ...] = ()
    """The recordings of all rounds, in their order."""


def read_samples(directory: Path, backend: BackendResult) -> Sampled:
    """Read all files of one backend with samples of the scheduler."""
    files = [name for name in backend.artifacts if name.endswith(SAMPLES)]
    if backend.shares is None or not files:
        return Sampled(Counter(), f"{backend.backend} kept no samples")
    try:
        profiles = tuple(_profiles(directory, files, backend.shares))
        return Sampled(busy_stacks(profiles), profiles=profiles)
    except SchedprofError as error:
        return Sampled(Counter(), reason_of(error))


def read_others(directory: Path, backend: BackendResult) -> dict[str, Counter[Stack]]:
    """Return what workers and the client did, all workers together; files without samples left out.

    Waiting threads are left out too. Files that cannot be read are only linked.
    """
    found: dict[str, Counter[Stack]] = {}
    for target in backend.targets:
        files = [name for name in target.artifacts if name.endswith(SAMPLES)]
        sums = found.setdefault("workers" if target.addresses else target.target, Counter())
        with suppress(SchedprofError):
            for profile in _profiles(directory, files, backend.shares):
                sums.update(_active(profile))
    return {name: stacks for name, stacks in found.items() if stacks}


def _active(profile: SampleProfile) -> Counter[Stack]:
    counts = Counter(index for thread in profile.threads for index in thread.samples)
    kept = {profile.stacks[index]: count for index, count in counts.items()}
    return Counter({stack: count for stack, count in kept.items() if not is_waiting(stack)})


def read_steps(directory: Path, backend: BackendResult) -> list[IntakeFile]:
    """Read all files of one backend with steps of graph intake; none if any cannot be read."""
    if not (backend.costs and INTAKE & backend.costs.whole.keys()):
        return []
    try:
        return [read_intake(read_kept(inside(directory, name))) for name in backend.artifacts]
    except SchedprofError:
        return []


def _profiles(
    directory: Path, files: list[str], shares: SampledShares | None
) -> Iterator[SampleProfile]:
    names = Names(each.function for each in (shares.functions if shares else ()))
    for file in files:
        content = read_speedscope(read_kept(inside(directory, file)))
        profile = name_frames(content, names, backend="", mode="")
        yield replace(profile, is_shared=bool(shares and shares.is_shared))


def reason_of(error: Exception) -> str:
    """Return what an error says, in one line of a page."""
    return " ".join(str(error).removeprefix("schedprof: ").split())
