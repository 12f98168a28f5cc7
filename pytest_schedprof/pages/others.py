"""Other results to compare a run with: another run, another side, and earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pytest_schedprof.analysis.series import Choice, series_of
from pytest_schedprof.comparison.compare import compare
from pytest_schedprof.comparison.parting import with_partings
from pytest_schedprof.errors import BaselineError
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.history import Series
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.pages.reading import RunFiles, TestFiles, read_side
from pytest_schedprof.storage.decided import decided_in_run
from pytest_schedprof.storage.run_directory import AGAINST
from pytest_schedprof.storage.run_history import Archive

MOST_RUNS = 200
"""Earlier runs that are read: the time to find change points is quadratic in them."""


@dataclass(frozen=True, slots=True)
class Other:
    """The same test on another side: its record and the directory of its files."""

    name: str
    directory: Path
    result: Result

    def backend(self, one: BackendResult) -> BackendResult | None:
        """Return the same backend in the same mode, as samples of others are not comparable."""
        found = (
            each
            for each in self.result.backends
            if (each.backend, each.mode) == (one.backend, one.mode)
        )
        return next(found, None)


def other_of(test: TestFiles, run: RunFiles | None = None) -> Other | None:
    """Return the test in another run if one is given, else the other side of a test in turns."""
    if run is not None:
        return next(
            (
                Other(run.path.name, each.directory, each.result)
                for each in reversed(run.tests)  # the last usable one of several attempts
                if each.result
                and each.result.is_usable
                and each.entry.test_id == test.entry.test_id
            ),
            None,
        )
    side = read_side(test.directory) if test.result else None
    if side is None or test.result is None:
        return None
    return Other(test.result.baseline or AGAINST, test.directory / AGAINST, side)


def compared(run: RunFiles, before: RunFiles) -> RunFiles:
    """Return the run as if its session had compared it with another run.

    Raises:
        BaselineError: if they have no test in common.
    """
    names = (before.path.name, run.path.name)
    report = compare(before.results, run.results, names=names)
    if not report.comparisons:
        raise BaselineError(
            f"schedprof: {str(before.path)!r} and {str(run.path)!r} have no test in common that "
            f"was measured in both ({len(before.results)} and {len(run.results)} tests)"
        )
    readers = (partial(decided_in_run, side.path) for side in (before, run))
    report = with_partings(report, *readers)
    return replace(run, tests=_with(run.tests, report.comparisons, names[0]))


def _with(
    tests: Sequence[TestFiles], comparisons: Sequence[Comparison], name: str
) -> tuple[TestFiles, ...]:
    return tuple(
        replace(
            test,
            result=replace(
                test.result,
                baseline=name,
                comparisons=tuple(c for c in comparisons if c.test_id == test.entry.test_id),
            ),
        )
        if test.result
        else test
        for test in tests
    )


@dataclass(frozen=True, slots=True)
class Past:
    """All series of a directory of runs."""

    series: tuple[Series, ...]
    runs: int
    skipped: int
    """Files that could not be read."""

    def of(self, test_id: str) -> list[Series]:
        """Return the series of one test."""
        return [each for each in self.series if each.setting.test_id == test_id]

    @property
    def words(self) -> str:
        """The number of runs, in words."""
        skipped = f"; {self.skipped} could not be read" if self.skipped else ""
        return f"{self.runs} runs in order of commits{skipped}"


def read_past(place: str) -> Past:
    """Read the newest runs at a path or URL.

    Raises:
        ArtifactError: if no run there can be read.
    """
    archive = Archive(place)
    runs = archive.runs(last=MOST_RUNS)
    series = series_of([(each.run, each.results) for each in runs], Choice())
    return Past(tuple(series), len(runs), len(archive.skipped))
