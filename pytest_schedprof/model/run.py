"""The record of one run, run.json, and of results that were saved as a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import SCHEMA_VERSION, Result


class StoredResult(Struct, frozen=True):
    """A result and the directory of its artifacts, which is empty if there is none."""

    directory: str
    result: Result
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    """Figures as in the test's entry in the run."""


class TestEntry(Struct, frozen=True):
    """One test in the record of a run."""

    __test__ = False  # not a test class, whatever its name

    test_id: str
    outcome: str
    verdict: Verdict
    directory: str
    """Directory of artifacts, relative to the run's directory."""
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    """Costs of the scheduler as a whole, by backend and metric: per task, in the metric's unit, as
    in result.json."""


class Run(Struct, frozen=True):
    """The record of one pytest session."""

    run_id: str
    started_at: str
    exit_status: int | None
    """None while the session runs, and for good if it was killed: then `tests` is empty."""
    tests: tuple[TestEntry, ...] = field(default=())
    commit: Commit | None = None
    """The commit that was checked out in the tests' directory; None without git."""
    unmatched: tuple[str, ...] = ()
    """What is said of tests that only this run has, or only what it was compared with."""
    schema_version: int = SCHEMA_VERSION


class BaselinePart(Struct, frozen=True):
    """Results that one session saved; a baseline consists of several such parts."""

    run_id: str
    saved_at: str
    results: tuple[Result, ...]
    """Results without artifacts, limits, and functions of negligible cost."""
    commit: Commit | None = None
    """The commit that was measured, as in the run."""
    schema_version: int = SCHEMA_VERSION


class Commit(Struct, frozen=True):
    """The commit of the tests' directory when a run begins, by git."""

    sha: str
    branch: str
    """Empty if no branch is checked out and no CI service names one."""
    time: str
    """Time of the commit, in UTC."""
    is_dirty: bool
    """Whether tracked files differ from the commit, or git did not answer in time."""

    @property
    def short(self) -> str:
        """Digits that are enough for any repository, with a + if files differed from it."""
        return self.sha[:9] + ("+" if self.is_dirty else "")


def by_test(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Group results by test."""
    tests: dict[str, list[Result]] = {}
    for result in results:
        tests.setdefault(result.test_id, []).append(result)
    return tests


def identities(results: Iterable[Result]) -> set[object]:
    """Return what tells measurements apart: of two with the same identity the later one counts."""
    usable = (result for result in results if result.is_usable)
    return {identity for result in usable for identity in _identities(result)}


def _identities(result: Result) -> Iterator[object]:
    environment = result.environment
    configuration = tuple(sorted(environment.configuration.items()))
    options = tuple(sorted(result.cluster.options.items()))
    place = (
        environment.minor_python,
        environment.event_loop,
        environment.scheduler_machine,
        result.cluster.size,
        options,
        configuration,
    )
    for backend in result.backends:
        yield (result.test_id, backend.backend, backend.mode, backend.window.scales, *place)


class Step(Struct, frozen=True):
    """A lasting change from one point to the next."""

    at: int
    """Index of the first point after the change."""
    before: float
    after: float
    chance: float
    """Probability that noise alone causes such a change at a given place."""


class Moment(Struct, frozen=True):
    """When a test was measured, and at which commit."""

    run_id: str
    started_at: str
    """Start of the run."""
    commit: Commit | None
    distributed: str = ""
    """Version of distributed on the scheduler."""


class Setting(Struct, frozen=True, order=True):
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
    is_repeated: bool = False
    """Whether the body ran more than once: the first round fills caches for the others."""


class Point(Struct, frozen=True):
    """The value of a metric at one moment."""

    moment: Moment
    value: float


class Series(Struct, frozen=True):
    """The figures of one metric of a test, in the order of commits."""

    setting: Setting
    metric: str
    subject: str
    """A function, `@owner`, or empty for the scheduler as a whole."""
    figures: tuple[Point, ...]
    steps: tuple[Step, ...]


class History(Struct, frozen=True):
    """All series of a directory of runs."""

    runs: int
    series: tuple[Series, ...]
    skipped: tuple[str, ...]
    """Files that could not be read, one line each."""
