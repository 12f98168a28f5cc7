"""Figures of a test over many runs, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_schedprof.model.commit import Commit


@dataclass(frozen=True, slots=True)
class Step:
    """A change from one point to the next that lasted."""

    at: int
    """The first point after it."""
    before: float
    after: float
    chance: float
    """How often noise alone would give as much at a given place."""


@dataclass(frozen=True, slots=True)
class Trend:
    """A slow change from one point to another, both included."""

    first: int
    last: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Course:
    """How a series went."""

    steps: tuple[Step, ...] = ()
    trends: tuple[Trend, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """When a test was measured, and of what."""

    run_id: str
    started_at: str
    """Of the run."""
    commit: Commit | None
    distributed: str = ""
    """Its version on the scheduler."""


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """What must be the same for two figures to be of one series."""

    test_id: str
    backend: str
    mode: str
    python: str
    """Minor version on the scheduler."""
    cluster: str
    workers: int
    scales: tuple[int, ...]
    """Of a test that runs at several."""
    machine: str
    """The scheduler's processors; empty for exact figures, which are the same on any."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric at one moment."""

    moment: Moment
    value: float


@dataclass(frozen=True, slots=True)
class Series:
    """A metric of a test in order of commits."""

    setting: Setting
    metric: str
    subject: str
    """A function, `@owner`, or empty for the scheduler as a whole."""
    figures: tuple[Figure, ...]
    course: Course


@dataclass(frozen=True, slots=True)
class History:
    """All series of a directory of runs."""

    runs: int
    series: tuple[Series, ...]
    skipped: tuple[str, ...]
    """What could not be read, a line for each."""
