"""Earlier runs: how each figure went from one to the next."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_schedprof.analysis.history import Choice, series_of
from pytest_schedprof.model.history import Series
from pytest_schedprof.storage.history import Archive

LAST = 200
"""Runs that are looked at: finding change points is quadratic in them."""


@dataclass(frozen=True, slots=True)
class Past:
    """All series of a directory of runs."""

    series: tuple[Series, ...]
    runs: int
    skipped: int
    """Files that could not be read."""

    def of(self, test_id: str) -> list[Series]:
        """Those of one test."""
        return [each for each in self.series if each.setting.test_id == test_id]

    @property
    def words(self) -> str:
        """What it was made of."""
        skipped = f"; {self.skipped} could not be read" if self.skipped else ""
        return f"{self.runs} runs in order of commits{skipped}"


def read_past(place: str) -> Past:
    """The newest runs at a path or URL.

    Raises:
        ArtifactError: if no run there can be read.
    """
    archive = Archive(place)
    runs = archive.runs(last=LAST)
    series = series_of([(each.run, each.results) for each in runs], Choice())
    return Past(tuple(series), len(runs), len(archive.skipped))
