"""The record of one run, as kept in run.json, and of what it saved for others to compare with."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_schedprof.model.commit import Commit
from pytest_schedprof.model.result import SCHEMA_VERSION, Result
from pytest_schedprof.model.verdict import Verdict


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result and the directory of its artifacts, empty if there is none."""

    directory: str
    result: Result
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    """As the test's entry in the run has them."""


@dataclass(frozen=True, slots=True)
class TestEntry:
    """One test in the record of a run."""

    __test__ = False  # not a test class, whatever its name

    test_id: str
    outcome: str
    verdict: Verdict
    directory: str
    """Relative to the run's directory."""
    setting: str = ""
    """What must be the same for figures of two runs to be compared, in words."""
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    """What the test cost the scheduler as a whole, by backend and metric: per task, in the metric's
    unit, as in result.json."""


@dataclass(frozen=True, slots=True)
class Run:
    """One pytest session's results."""

    run_id: str
    started_at: str
    exit_status: int
    tests: tuple[TestEntry, ...] = field(default=())
    commit: Commit | None = None
    """What was checked out where the tests are; None where git does not know."""
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class BaselinePart:
    """What one session saved of its tests; the parts of a baseline add up."""

    run_id: str
    saved_at: str
    results: tuple[Result, ...]
    """Without artifacts and limits, and without functions that hold next to nothing."""
    schema_version: int = SCHEMA_VERSION
