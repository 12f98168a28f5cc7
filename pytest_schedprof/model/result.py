"""The record of one profiled test, as kept in result.json."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.place import ClusterFacts, Environment
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.verdict import Estimate, LimitResult, Verdict

SCHEMA_VERSION = 1
"""Raised when a reader of the old records would misread a new one."""

WHOLE = ("passed", "xpassed", "xfailed")


@dataclass(frozen=True, slots=True)
class FunctionShare:
    """How much of the scheduler's busy time one function holds."""

    function: Function
    owner: str
    share: Estimate
    self_share: Estimate


@dataclass(frozen=True, slots=True)
class OwnerShare:
    """How much of the scheduler's busy time one part of dask holds."""

    owner: str
    share: Estimate


@dataclass(frozen=True, slots=True)
class Segment:
    """One stretch of a window, between a start and a stop of the recordings."""

    seconds: float
    cpu_seconds: float
    """CPU time of the scheduler's process."""
    tasks: int
    """Tasks that the scheduler saw finish, in memory or with an error."""
    transitions: int
    scale: int = 0
    """Size of the workload, where the test runs at several; else 0."""
    others_tasks: int = 0
    """Tasks of other clients that finished meanwhile; they are not among the tasks, but what they
    cost is in all costs and shares."""
    client: dict[str, float] = field(default_factory=dict)
    """CPU seconds of the test's client by phase, where it was looked at."""


@dataclass(frozen=True, slots=True)
class Window:
    """What a backend measured: the call phase of the test, or what `measure()` narrowed it to."""

    rounds: int
    segments: tuple[Segment, ...]

    @property
    def scales(self) -> tuple[int, ...]:
        """Sizes of the workload; none of a test that has but one."""
        return tuple(sorted({segment.scale for segment in self.segments} - {0}))

    @property
    def tasks(self) -> int:
        """Tasks processed over all segments."""
        return sum(segment.tasks for segment in self.segments)

    @property
    def others_tasks(self) -> int:
        """Tasks of other clients over all segments."""
        return sum(segment.others_tasks for segment in self.segments)

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the scheduler over all segments."""
        return sum(segment.cpu_seconds for segment in self.segments)

    @property
    def seconds(self) -> float:
        """Wall time over all segments."""
        return sum(segment.seconds for segment in self.segments)

    @property
    def cpu_us_per_task(self) -> float | None:
        """Scheduler CPU per task in microseconds, None without tasks."""
        return self.cpu_seconds / self.tasks * 1e6 if self.tasks else None


@dataclass(frozen=True, slots=True)
class SampledShares:
    """What the samples of a backend say."""

    busy_samples: int
    idle_samples: int
    empty_samples: int
    inference: str
    """The unit whose scatter gave the intervals: 'rounds' or 'blocks'."""
    functions: tuple[FunctionShare, ...]
    owners: tuple[OwnerShare, ...]
    freedom: int = 0
    """Degrees of freedom of the scatter; 0 in records that do not tell."""
    drift: float | None = None
    """What the bounds add for noise that outlasts a window; None in records that do not tell."""


@dataclass(frozen=True, slots=True)
class FunctionCost:
    """What one function cost over the whole window."""

    function: Function
    owner: str
    total: dict[str, float]
    """By metric; divide by the window's tasks, but for `peak` and `leaked`."""
    scatter: dict[str, float] = field(default_factory=dict)
    """By metric: the standard deviation between rounds of the cost per task, as a fraction of it;
    empty where there was but one round."""


@dataclass(frozen=True, slots=True)
class MeasuredCosts:
    """What a backend counted or timed."""

    functions: tuple[FunctionCost, ...]
    whole: dict[str, float]
    """Metrics of no one function, over the whole window."""
    scatter: dict[str, float] = field(default_factory=dict)
    """The same of these, as of a function."""


@dataclass(frozen=True, slots=True)
class TargetFiles:
    """What a backend brought back of a process beside the scheduler's."""

    target: str
    """`client`, or a worker by its name."""
    addresses: tuple[str, ...]
    """Of the workers that live in the process."""
    artifacts: tuple[str, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BackendResult:
    """What one backend found in its window."""

    backend: str
    mode: str
    settings: dict[str, bool | int | float | str | list[str] | None]
    window: Window
    shares: SampledShares | None
    """None for a backend that does not sample."""
    costs: MeasuredCosts | None
    """None for a backend that neither counts nor times."""
    limits: tuple[LimitResult, ...]
    artifacts: tuple[str, ...]
    """File names, beside this record."""
    warnings: tuple[str, ...] = ()
    targets: tuple[TargetFiles, ...] = ()
    """Processes that were observed beside the scheduler."""
    doubt: str = ""
    """Why nothing can be judged by it; else empty."""


@dataclass(frozen=True, slots=True)
class Result:
    """One profiled test."""

    test_id: str
    outcome: str
    started_at: str
    cluster: ClusterFacts | None
    environment: Environment | None
    confidence: float
    """Level of each one-sided bound."""
    schedprof_version: str
    backends: tuple[BackendResult, ...]
    troubles: tuple[str, ...] = ()
    """What went wrong with the profiling itself."""
    unjudged: tuple[str, ...] = ()
    """Limits that none of the backends which the run chose could judge."""
    baseline: str = ""
    """What the test was compared with, if with anything."""
    comparisons: tuple[Comparison, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    """What dask itself told, by kind."""
    null: tuple[Comparison, ...] = ()
    """With the same code on another scheduler: a regression here is a false alarm."""
    schema_version: int = SCHEMA_VERSION

    @property
    def is_usable(self) -> bool:
        """A body that failed did not do its work; one whose limit was broken did."""
        is_whole = self.outcome in WHOLE or self.verdict is Verdict.FAIL
        return is_whole and bool(self.backends) and not self.troubles

    @property
    def limits(self) -> tuple[LimitResult, ...]:
        """The limits of all backends."""
        return tuple(limit for backend in self.backends for limit in backend.limits)

    @property
    def verdict(self) -> Verdict:
        """All limits taken together; of a test whose profiling failed none can be sure."""
        unsure = [Verdict.INCONCLUSIVE] if self.troubles else []
        compared = [each.verdict for each in self.comparisons if each.is_binding]
        return Verdict.worst([*unsure, *compared, *(limit.verdict for limit in self.limits)])
