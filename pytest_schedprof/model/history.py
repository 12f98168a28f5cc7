"""Figures of tests over many runs, with their changes."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_schedprof.model.run import Commit


@dataclass(frozen=True, slots=True)
class Step:
    """A lasting change from one point to the next."""

    at: int
    """Index of the first point after the change."""
    before: float
    after: float
    chance: float
    """Probability that noise alone causes such a change at a given place."""


@dataclass(frozen=True, slots=True)
class Trend:
    """A slow change between two points, both included."""

    first: int
    last: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Course:
    """The changes of a series."""

    steps: tuple[Step, ...] = ()
    trends: tuple[Trend, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """When a test was measured, and at which commit."""

    run_id: str
    started_at: str
    """Start of the run."""
    commit: Commit | None
    distributed: str = ""
    """Version of distributed on the scheduler."""


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """The properties that all figures of a series have in common."""

    test_id: str
    backend: str
    mode: str
    python: str
    """Minor version of Python on the scheduler."""
    cluster: str
    workers: int
    scales: tuple[int, ...]
    """Sizes of the workload; empty if the test runs at one size only."""
    machine: str
    """The scheduler's processors; empty for exact figures, which do not depend on them."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The value of a metric at one moment."""

    moment: Moment
    value: float


@dataclass(frozen=True, slots=True)
class Series:
    """The figures of one metric of a test, in the order of commits."""

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
    """Files that could not be read, one line each."""
