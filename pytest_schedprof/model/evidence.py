"""What dask itself tells of a test."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Evidence:
    """One kind of it, as a test's record lists it."""

    kind: str
    artifacts: tuple[str, ...]
    """File names, beside the record."""
    notes: tuple[str, ...] = ()
    """What is not as one would expect."""
    missing: str = ""
    """Why it could not be had; else empty."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A place in the user's code from which tasks were submitted."""

    code: str
    """Of the function or cell."""
    filename: str
    line_in_file: int
    line_in_code: int


@dataclass(frozen=True, slots=True)
class WorkerMetric:
    """What workers measured of tasks, by dask's own words."""

    name: tuple[str, ...]
    """As `("execute", "inc", "thread-cpu", "seconds")`: the last is the unit."""
    value: float


@dataclass(frozen=True, slots=True)
class Span:
    """A span, as the scheduler knows it. Times are those of the scheduler's clock."""

    name: tuple[str, ...]
    id: str
    enqueued: float
    start: float
    """When its first task began to run; 0 if none has ended."""
    stop: float
    done: bool
    states: dict[str, int]
    """How many tasks are in each state, forgotten ones too."""
    duration: float
    """Seconds of workers' threads, over all actions."""
    all_durations: dict[str, float]
    """The same by action: compute, transfer, ..."""
    nbytes_total: int
    active_cpu_seconds: float
    """Seconds of threads that the cluster had while the span was active."""
    nthreads_intervals: tuple[tuple[float, float, int], ...]
    """From, to, and how many threads the cluster had."""
    code: tuple[tuple[SourceLine, ...], ...]
    """Each call that submitted tasks, with the frames above it."""
    cumulative_worker_metrics: tuple[WorkerMetric, ...]
    children: tuple[Span, ...] = field(default=())

    @property
    def tasks(self) -> int:
        """All that it ever had."""
        return sum(self.states.values())


@dataclass(frozen=True, slots=True)
class Spans:
    """The span of each take of a test, with those that the body opened below it."""

    takes: tuple[Span, ...]
    merged: Span
    """All of them as one, by `Span.merge`."""


@dataclass(frozen=True, slots=True)
class MemorySamples:
    """Memory of all workers together during one take, as the scheduler heard of it."""

    take: int
    measure: str
    """`process`, `managed` or `spilled`, as dask calls them."""
    samples: tuple[tuple[float, int], ...]
    """Time and bytes."""


@dataclass(frozen=True, slots=True)
class TaskTime:
    """What a worker did for a task. Times are those of the scheduler's clock."""

    action: str
    """`transfer` (from other workers), `disk-read`, `disk-write`, `deserialize` or `compute`."""
    start: float
    stop: float


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task that a worker finished."""

    take: int
    key: str
    worker: str
    thread: int | None
    nbytes: int
    type: str
    has_failed: bool
    times: tuple[TaskTime, ...]


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """Seconds that workers spent, of five kinds, which overlap: a worker does several at once."""

    serialisation: float
    """To make objects of bytes and bytes of objects, compression with it."""
    gathering: float
    """Until what a task needs had come from other workers."""
    disk: float
    execution: float
    transfer: float
    """To send and to receive over the network."""


@dataclass(frozen=True, slots=True)
class TaskStream:
    """All tasks of a test."""

    tasks: tuple[TaskRecord, ...]
    seconds: WorkerTimes


@dataclass(frozen=True, slots=True)
class Transfer:
    """What one worker had from another at once. Times are those of the scheduler's clock."""

    start: float
    stop: float
    duration: float
    peer: str
    """The other's address."""
    keys: dict[str, int]
    """With the bytes of each."""
    bytes: int
    compressed_bytes: int | None
    """None where the worker does not tell: of what it received."""
    bandwidth: float
    """Bytes per second."""


@dataclass(frozen=True, slots=True)
class WorkerTransfers:
    """Both logs of one worker."""

    address: str
    name: str
    incoming: tuple[Transfer, ...]
    outgoing: tuple[Transfer, ...]


@dataclass(frozen=True, slots=True)
class WorkerProfile:
    """A function in dask's own profile of its workers, with what it called."""

    description: str
    samples: int
    children: tuple[WorkerProfile, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class LocalTask:
    """A task of one of dask's local schedulers. Times are seconds since the first take began."""

    key: str
    start: float
    stop: float
    worker: str
    """A thread or process, by its number."""


@dataclass(frozen=True, slots=True)
class ResourceSample:
    """A look at the test's process and its children."""

    time: float
    memory_mb: float
    cpu_percent: float


@dataclass(frozen=True, slots=True)
class CachedResult:
    """How long a result was kept."""

    key: str
    amount: float
    """By the metric of the cache profiler."""
    cached: float
    freed: float


@dataclass(frozen=True, slots=True)
class LocalScheduler:
    """By `Profiler`, `ResourceProfiler` and `CacheProfiler`."""

    tasks: tuple[LocalTask, ...]
    resources: tuple[ResourceSample, ...]
    cache: tuple[CachedResult, ...]
    cache_metric: str
    """`bytes`, or that of the user's own profiler."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a computation's way."""

    where: str
    """`client` or `scheduler`."""
    name: str
    cpu_seconds_per_task: float


@dataclass(frozen=True, slots=True)
class Phases:
    """The whole way, in order."""

    tasks: int
    phases: tuple[Phase, ...]
    sampled_by: str
    """The backend by which the scheduler's phases are known; empty where none sampled."""
