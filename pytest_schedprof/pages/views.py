"""What pages show, as plain data: templates lay it out and decide nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_schedprof.pages.flame import Flame


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and what it says."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its bounds, drawn on a scale from 0 to 1."""

    low: float
    value: float
    high: float
    limit: float | None = None
    before: float | None = None


@dataclass(frozen=True, slots=True)
class Name:
    """A function's identity in its two parts; of what is no function the second alone."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A limit, or one of the functions that it names."""

    limit: str
    verdict: str
    subject: str
    amount: str
    bounds: str
    grounds: str
    """What the figures rest on, or why there are none."""
    backend: str
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """A part of the bar of owners."""

    owner: str
    part: float
    share: str
    bounds: str
    cost: str
    interval: Interval


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """A function by its samples."""

    name: Name
    owner: str
    share: str
    bounds: str
    own: str
    cost: str
    interval: Interval


@dataclass(frozen=True, slots=True)
class CostTable:
    """Costs by function: a column for each metric that there is."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Name, str, tuple[str, ...]], ...]
    """Name, owner and amounts."""
    left_out: int


@dataclass(frozen=True, slots=True)
class BackendView:
    """What one backend found."""

    id: str
    name: str
    headline: str
    notes: tuple[str, ...]
    owners: tuple[OwnerRow, ...]
    functions: tuple[FunctionRow, ...]
    left_out: int
    flames: tuple[Flame, ...]
    no_flame: str
    """Why there is no flame graph, where there could be one."""
    whole: tuple[Fact, ...]
    costs: CostTable | None


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A figure before and after."""

    outcome: str
    metric: str
    before: str
    after: str
    change: str
    bounds: str
    owner: str
    name: Name
    note: str


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """What changed by one backend."""

    backend: str
    verdict: str
    count: str
    reasons: tuple[str, ...]
    rows: tuple[ChangeRow, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A place of a sparkline."""

    x: float
    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Spark:
    """A series drawn small: points of lines, as SVG has them."""

    line: str
    levels: tuple[str, ...]
    """What it was between change points."""
    marks: tuple[Mark, ...]
    """Steps."""


@dataclass(frozen=True, slots=True)
class TrendRow:
    """A series over many runs."""

    test_id: str
    metric: str
    name: Name
    setting: str
    """What must be the same for figures to be of one series."""
    first: str
    last: str
    change: str
    figures: int
    notes: tuple[str, ...]
    spark: Spark


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file beside the page, and what opens it."""

    name: str
    size: str
    opens: str


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """A kind of evidence."""

    kind: str
    what: str
    files: tuple[FileRow, ...]
    notes: tuple[str, ...]
    missing: str


@dataclass(frozen=True, slots=True)
class TestPage:
    """The page of one test."""

    __test__ = False  # not a test class, whatever its name

    test_id: str
    outcome: str
    verdict: str
    run_id: str
    up: str
    """Path from here to the run's page."""
    facts: tuple[Fact, ...]
    troubles: tuple[str, ...]
    limits: tuple[LimitRow, ...]
    unjudged: tuple[str, ...]
    backends: tuple[BackendView, ...]
    compared_with: str
    comparisons: tuple[ComparisonView, ...]
    null: tuple[ComparisonView, ...]
    evidence: tuple[EvidenceRow, ...]
    files: tuple[FileRow, ...]
    settings: tuple[Fact, ...]
    trends: tuple[TrendRow, ...] = ()


@dataclass(frozen=True, slots=True)
class TestRow:
    """A test on the page of its run."""

    __test__ = False  # not a test class, whatever its name

    test_id: str
    link: str
    outcome: str
    verdict: str
    limits: str
    changes: str
    tasks: str
    cost: str
    cost_part: float
    """Of the dearest test's."""
    owners: tuple[OwnerRow, ...]
    hottest: Name | None
    share: str
    problem: str


@dataclass(frozen=True, slots=True)
class RunPage:
    """The page of a run."""

    run_id: str
    facts: tuple[Fact, ...]
    counts: tuple[Fact, ...]
    tests: tuple[TestRow, ...]
    owners: tuple[OwnerRow, ...]
    functions: tuple[FunctionRow, ...]
    changes: tuple[tuple[str, ChangeRow], ...] = field(default=())
    """With the test, those that matter."""
    trends: tuple[TrendRow, ...] = ()
    """Of all tests, those that changed."""
    history: str = ""
    """What trends are of, in words; empty where there was none to look at."""
