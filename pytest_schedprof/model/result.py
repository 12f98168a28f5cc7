"""The record of one profiled test, result.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from msgspec import Struct, field

from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.limit import Estimate, LimitResult, Verdict
from pytest_schedprof.model.profile import Function

IN_PROCESS = "in-process"
OWN_VIRTUAL = "in-process, virtual time"
"""Kind of the cluster whose scheduler is in the test's own process, with workers and clients."""

VIRTUAL = "virtual"
"""Kind of the cluster in virtual time, where each run of the same code is the same."""

VALIDATED = "True"
"""Value of the option `validate` of a scheduler that checks its own state at each transition."""


class Environment(Struct, frozen=True):
    """The machine, versions and configuration with which a result was measured."""

    python: str
    platform: str
    machine: str
    cpu_count: int
    scheduler_python: str
    scheduler_platform: str
    versions: dict[str, str]
    """Versions of the relevant packages on the scheduler."""
    test_versions: dict[str, str] = field(default_factory=dict)
    """Versions of the same packages in the test's process."""
    scheduler_machine: str = ""
    """Model and number of the processors on the scheduler's machine."""
    configuration: dict[str, str] = field(default_factory=dict)
    """Options of dask's configuration that concern the scheduler."""
    hash_seed: str = ""
    """Hash seed of the scheduler's interpreter, which orders sets of strings: a number, or
    `random`."""
    test_hash_seed: str = ""
    """The same of the test's process, which builds the graphs."""
    event_loop: str = ""
    """Package of the scheduler's event loop, as `asyncio`."""
    code: str = ""
    """Directories from which the scheduler loaded Python, distributed and dask. Kept sources are
    found by it."""

    @property
    def minor_python(self) -> str:
        """The scheduler's minor version of Python, as 3.11; bytecodes depend on it."""
        return ".".join(self.scheduler_python.split(".")[:2])

    @property
    def differences(self) -> tuple[str, ...]:
        """Differences between the test's process and the scheduler, in words."""
        python = (self.python, self.scheduler_python)
        return differences(self.test_versions, self.versions, python=python)


class ClusterFacts(Struct, frozen=True):
    """The cluster that ran the test."""

    kind: str
    address: str
    workers: int
    threads: int
    """Threads of all workers together."""
    options: dict[str, str] = field(default_factory=dict)
    """Options of the cluster, as they were given."""

    @property
    def threads_per_worker(self) -> str:
        """Threads of each worker, or their mean."""
        return f"{self.threads / max(1, self.workers):g}"

    @property
    def size(self) -> str:
        """Kind and size in words; the workers that a test starts itself are not counted."""
        if self.kind in (IN_PROCESS, OWN_VIRTUAL):
            return self.kind
        return f"{self.kind}, {self.workers} workers, {self.threads} threads"


def differences(
    of_test: Mapping[str, str], of_scheduler: Mapping[str, str], *, python: tuple[str, str]
) -> tuple[str, ...]:
    """Return the differences of two sides in words; `python` has both versions of Python."""
    sides = [("Python", *python)]
    names = [name for name in of_test if name in of_scheduler]
    sides += [(name, of_test[name], of_scheduler[name]) for name in names]
    return tuple(
        f"{name} is {one} where the tests run and {other} where the scheduler does"
        for name, one, other in sides
        if one != other
    )


SCHEMA_VERSION = 1
"""Incremented when a reader of old records would misread a new one."""

WHOLE = ("passed", "xpassed", "xfailed")
NOT_FAILED = (*WHOLE, "skipped")

NOT_SCHEDULER = frozenset(
    {"idle", "foreign", "import", "profiler", "worker", "client", "undivided"}
)
"""Owners that do not belong to the scheduler; their samples are in no denominator."""

SIDES_IN_TURNS = frozenset({"worker", "client"})
"""Those of them whose counts are exact too, if they take turns with the scheduler."""


class FunctionShare(Struct, frozen=True):
    """A function's share of the scheduler's busy time."""

    function: Function
    owner: str
    share: Estimate
    self_share: Estimate


class OwnerShare(Struct, frozen=True):
    """An owner's share of the scheduler's busy time."""

    owner: str
    share: Estimate


class Segment(Struct, frozen=True):
    """A part of a window, between a start and a stop of the recordings."""

    seconds: float
    cpu_seconds: float
    """CPU time of the scheduler's process."""
    tasks: int
    """Tasks that finished on the scheduler, in memory or with an error."""
    transitions: int
    scale: int = 0
    """Size of the workload if the test runs at several sizes, else 0."""
    client: dict[str, float] = field(default_factory=dict)
    """CPU seconds of the test's client by phase; empty if they were not measured."""
    workers: dict[str, float] = field(default_factory=dict)
    """CPU seconds of all workers' processes by phase; empty if they were not measured."""
    hash: str = ""
    """Hash of all messages but releases, and of their times, in virtual time; else empty."""
    graphs: str = ""
    """Hash of the graphs that clients sent, in virtual time; else empty."""


class Window(Struct, frozen=True):
    """The measured part of a test: its call phase, or what `measure()` narrows it to."""

    rounds: int
    segments: tuple[Segment, ...]

    @property
    def scales(self) -> tuple[int, ...]:
        """Sizes of the workload; empty if the test has only one."""
        return tuple(sorted({segment.scale for segment in self.segments} - {0}))

    @property
    def tasks(self) -> int:
        return sum(segment.tasks for segment in self.segments)

    @property
    def cpu_seconds(self) -> float:
        return sum(segment.cpu_seconds for segment in self.segments)

    @property
    def seconds(self) -> float:
        """Wall time of all segments."""
        return sum(segment.seconds for segment in self.segments)

    @property
    def hash(self) -> str:
        """Hash of all that happened in virtual time; empty if a segment has none."""
        hashes = [segment.hash for segment in self.segments]
        if not all(hashes):
            return ""
        if len(hashes) == 1:
            return hashes[0]
        return blake2b("".join(hashes).encode(), digest_size=16).hexdigest()

    @property
    def cpu_us_per_task(self) -> float | None:
        """Scheduler CPU per task in microseconds, None without tasks."""
        return self.cpu_seconds / self.tasks * 1e6 if self.tasks else None


class SampledShares(Struct, frozen=True):
    """Shares that were computed from a backend's samples."""

    busy_samples: int
    idle_samples: int
    empty_samples: int
    inference: str
    """The unit whose scatter gives the intervals: 'rounds' or 'blocks'."""
    functions: tuple[FunctionShare, ...]
    owners: tuple[OwnerShare, ...]
    freedom: int = 0
    """Degrees of freedom of the scatter."""
    is_shared: bool = False
    """Whether the test, workers and clients ran in the same process. Samples that may be theirs
    are then in no share."""
    waiting_samples: int = 0
    """Idle samples that stand for no CPU time."""
    sample_seconds: float = 0.0
    """Time by the clock that each sample stands for; 0 of samples at steps of CPU time."""

    @property
    def samples(self) -> int:
        return self.busy_samples + self.idle_samples + self.empty_samples

    @property
    def busy_part(self) -> float:
        """The part of the samples that stand for CPU time in which the scheduler was busy."""
        return self.busy_samples / max(1, self.samples - self.waiting_samples)


class FunctionCost(Struct, frozen=True):
    """Costs of one function in the whole window."""

    function: Function
    owner: str
    total: dict[str, float]
    """Cost by metric. All but `peak` and `leaked` must be divided by the window's tasks."""
    scatter: dict[str, float] = field(default_factory=dict)
    """Standard deviation between rounds of the cost per task, by metric, as a fraction of the cost;
    empty with one round."""
    code: str = ""
    """Digests of its code, with spaces between them; empty if they are not known."""


class MeasuredCosts(Struct, frozen=True):
    """Costs that a backend counted or timed."""

    functions: tuple[FunctionCost, ...]
    whole: dict[str, float]
    """Metrics that belong to no single function, over the whole window."""
    scatter: dict[str, float] = field(default_factory=dict)
    """Standard deviation between rounds of the metrics in `whole`, as for a function."""
    folded: tuple[FunctionCost, ...] = ()
    """The functions that `functions` has in lines of others, since they cost next to nothing."""


class BackendResult(Struct, frozen=True):
    """Results of one backend in its window."""

    backend: str
    mode: str
    settings: dict[str, bool | int | float | str | list[str] | None]
    window: Window
    shares: SampledShares | None
    """None if the backend does not sample."""
    costs: MeasuredCosts | None
    """None if the backend neither counts nor times."""
    limits: tuple[LimitResult, ...]
    artifacts: tuple[str, ...]
    """Names of files beside this record."""
    warnings: tuple[str, ...] = ()
    doubt: str = ""
    """Why it cannot judge any limit; else empty."""
    hashes: tuple[str, ...] = ()
    """Hash of what happened in each recording, of a backend that can tell; else empty."""
    left_out: int = 0
    """Bytes of files that were not kept, by the setting `keep`."""


class Result(Struct, frozen=True):
    """The record of one profiled test."""

    test_id: str
    outcome: str
    started_at: str
    cluster: ClusterFacts
    environment: Environment
    confidence: float
    """Confidence level of each one-sided bound."""
    schedprof_version: str
    backends: tuple[BackendResult, ...]
    is_whole: bool = True
    """False if the body itself failed, which may have left work undone."""
    troubles: tuple[str, ...] = ()
    """What went wrong with the profiling itself."""
    unjudged: tuple[str, ...] = ()
    """Limits that no chosen backend can judge."""
    baseline: str = ""
    """Name of what the test was compared with, empty if nothing."""
    baseline_commit: str = ""
    """The commit that it was measured of, in short; empty if that is not known."""
    comparisons: tuple[Comparison, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    """Evidence from dask's own instruments, by kind."""
    schema_version: int = SCHEMA_VERSION

    def counterpart(self, backend: BackendResult) -> BackendResult | None:
        """Return the same backend in the same mode, as samples of others are not comparable."""
        same = (
            candidate
            for candidate in self.backends
            if (candidate.backend, candidate.mode) == (backend.backend, backend.mode)
        )
        return next(same, None)

    @property
    def is_usable(self) -> bool:
        """Whether the body did its work: it passed, or failed by a limit only, and was profiled."""
        # Under `strict` an inconclusive verdict fails the test, too.
        is_done = self.outcome in WHOLE or (self.is_whole and self.verdict is not Verdict.PASS)
        return is_done and bool(self.backends) and not self.troubles

    @property
    def is_own_virtual(self) -> bool:
        """Whether the test made its own cluster, of which all takes turns and all counts."""
        return self.cluster.kind == OWN_VIRTUAL

    @property
    def has_regressed(self) -> bool:
        """Whether a figure regressed, even if that does not fail the test."""
        return any(comparison.verdict is Verdict.FAIL for comparison in self.comparisons)

    @property
    def limits(self) -> tuple[LimitResult, ...]:
        """Results of all limits, on what backends measured and on evidence."""
        sources: Iterable[BackendResult | Evidence] = (*self.backends, *self.evidence)
        return tuple(limit for source in sources for limit in source.limits)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all limits and comparisons; inconclusive if the profiling failed."""
        unsure = [Verdict.INCONCLUSIVE] if self.troubles else []
        compared = [comparison.verdict for comparison in self.comparisons if comparison.is_binding]
        return Verdict.worst([*unsure, *compared, *(limit.verdict for limit in self.limits)])
