"""Evidence of a test from dask's own instruments, as its files and the record have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from pytest_schedprof.model.limit import LimitResult


class RunAmounts(Struct, frozen=True):
    """The amounts of one metric of evidence in the runs of the body."""

    metric: str
    subject: str
    """A measure, a prefix of tasks or a phase; empty for all together."""
    amounts: tuple[float, ...]
    """One for each run that it was measured in, or one for all of them."""
    scales: tuple[int, ...] = ()
    """Size of the workload in each of these runs; empty if the test runs at one size only."""


class Evidence(Struct, frozen=True):
    """One kind of evidence in the record of a test."""

    kind: str
    artifacts: tuple[str, ...]
    """Names of files beside the record."""
    notes: tuple[str, ...] = ()
    """Things that a reader would not expect."""
    missing: str = ""
    """Why it could not be gathered; empty if it was."""
    description: str = ""
    """What it shows, in one line."""
    amounts: tuple[RunAmounts, ...] = ()
    """What limits can bound."""
    limits: tuple[LimitResult, ...] = ()


class SourceLine(Struct, frozen=True):
    """A place in the user's code from which tasks were submitted."""

    code: str
    """Source code of the function or notebook cell."""
    filename: str
    line_in_file: int
    line_in_code: int


class WorkerMetric(Struct, frozen=True):
    """A measurement of workers, under dask's own name."""

    name: tuple[str, ...]
    """For example `("execute", "inc", "thread-cpu", "seconds")`; the last item is the unit."""
    value: float


class SpanAnnotation(Struct, frozen=True):
    """The annotation that puts a task into a span."""

    name: tuple[str, ...]
    ids: tuple[str, ...]
    """IDs of the span and of all that it is in, from the outermost."""


class SpanGroup(Struct, frozen=True):
    """A group of tasks that belongs to a span."""

    name: str
    states: dict[str, int]
    """Number of tasks in each state, with forgotten tasks."""
    start: float
    stop: float
    duration: float
    """Seconds that workers' threads spent on it."""
    nbytes_total: int


class Span(Struct, frozen=True):
    """A span as the scheduler knows it; all times are by the scheduler's clock."""

    name: tuple[str, ...]
    id: str
    enqueued: float
    start: float
    """When its first task began to run; 0 if no task has ended."""
    stop: float
    done: bool
    states: dict[str, int]
    """Number of tasks in each state, with forgotten tasks."""
    duration: float
    """Seconds that workers' threads spent on all actions."""
    all_durations: dict[str, float]
    """The duration of each action: compute, transfer, ..."""
    nbytes_total: int
    active_cpu_seconds: float
    """Seconds that the cluster's threads had while the span was active."""
    nthreads_intervals: tuple[tuple[float, float, int], ...]
    """Begin, end, and the number of threads of the cluster."""
    code: tuple[tuple[SourceLine, ...], ...]
    """Stacks of the calls that submitted tasks."""
    cumulative_worker_metrics: tuple[WorkerMetric, ...]
    children: tuple[Span, ...] = field(default=())
    parent: str = ""
    """ID of the span that it is in; empty if it is in none."""
    annotation: SpanAnnotation | None = None
    """None for dask's default span."""
    metadata: tuple[dict[str, Any], ...] = ()
    """What clients told of the collections that its tasks came from."""
    groups: tuple[SpanGroup, ...] = ()
    """Groups of tasks that belong to it directly, the first to start first."""

    @property
    def tasks(self) -> int:
        """Number of all tasks that it ever had."""
        return sum(self.states.values())


class Spans(Struct, frozen=True):
    """The spans of all runs of a body, with those that the body opened inside."""

    takes: tuple[Span, ...]
    merged: Span
    """All of them merged by `Span.merge`."""
    default: tuple[Span, ...] = ()
    """dask's default spans, with tasks that came from elsewhere meanwhile."""
    all: Span | None = None
    """All spans that the scheduler got meanwhile, merged as by `merge_all`."""
    tags: dict[str, Span] = field(default_factory=dict)
    """The spans with each tag that the body gave, merged as by `merge_by_tags`."""

    def find_by_tags(self, *tags: str) -> Iterator[Span]:
        """Yield the spans of the body that have any of these tags, but none within another one."""
        for take in self.takes:
            for child in take.children:
                yield from _with_tags(child, set(tags), len(take.name))


def _with_tags(span: Span, tags: set[str], depth: int) -> Iterator[Span]:
    if tags.intersection(span.name[depth:]):
        yield span
    else:
        for child in span.children:
            yield from _with_tags(child, tags, depth)


class MemorySamples(Struct, frozen=True):
    """Memory of all workers together during one run of the body, as reported to the scheduler."""

    take: int
    measure: str
    """A measure of dask: `process`, `managed` or `spilled`."""
    samples: tuple[tuple[float, int], ...]
    """Pairs of time and bytes."""


class TaskTime(Struct, frozen=True):
    """An action of a worker for a task; times are by the scheduler's clock."""

    action: str
    """`transfer` (from other workers), `disk-read`, `disk-write`, `deserialize` or `compute`."""
    start: float
    stop: float


class TaskRecord(Struct, frozen=True):
    """A task that a worker finished."""

    take: int
    key: str
    worker: str
    thread: int | None
    nbytes: int
    type: str
    has_failed: bool
    times: tuple[TaskTime, ...]


class WorkerTimes(Struct, frozen=True):
    """Seconds that workers spent on five activities, which overlap in time."""

    serialisation: float
    """Serialisation and deserialisation, with compression."""
    gathering: float
    """Time that tasks waited for results of other workers."""
    disk: float
    execution: float
    transfer: float
    """Time for sending and receiving over the network."""


class TaskStream(Struct, frozen=True):
    """All tasks of a test and the times of workers."""

    tasks: tuple[TaskRecord, ...]
    seconds: WorkerTimes


class Transfer(Struct, frozen=True):
    """One transfer between two workers; times are by the scheduler's clock."""

    start: float
    stop: float
    duration: float
    peer: str
    """Address of the other worker."""
    keys: dict[str, int]
    """Number of bytes of each key."""
    bytes: int
    compressed_bytes: int | None
    """None for incoming transfers, of which workers do not record it."""
    bandwidth: float
    """Bytes per second."""


class WorkerTransfers(Struct, frozen=True):
    """Both transfer logs of one worker."""

    address: str
    name: str
    incoming: tuple[Transfer, ...]
    outgoing: tuple[Transfer, ...]


class WorkerProfile(Struct, frozen=True):
    """A function in dask's profile of its workers, with the functions that it called."""

    description: str
    samples: int
    children: tuple[WorkerProfile, ...] = field(default=())


class ProfileSlice(Struct, frozen=True):
    """Samples of one worker's threads in one stretch of time."""

    worker: str
    start: float
    stop: float
    """By the scheduler's clock."""
    samples: dict[str, int]
    """By the prefix of the tasks that ran."""


class WorkerProfiles(Struct, frozen=True):
    """What workers' threads did, together, by prefix of tasks and over time."""

    description: str
    samples: int
    children: tuple[WorkerProfile, ...] = ()
    """Functions that were called for tasks of any prefix."""
    prefixes: dict[str, WorkerProfile] = field(default_factory=dict)
    """The same for each prefix, that with the most samples first."""
    slices: tuple[ProfileSlice, ...] = ()
    """In the order in which they ended."""
    begun: float = 0.0
    """When the first of them began."""
    interval_s: float = 0.0
    """Seconds between two samples of a worker."""
    cycle_s: float = 0.0
    """Seconds of a slice; those at the start and at the end of the test are shorter."""


class LocalTask(Struct, frozen=True):
    """A task of one of dask's local schedulers; times are seconds since the epoch."""

    key: str
    start: float
    stop: float
    worker: str
    """Number of the thread or process that ran it."""
    task: str = ""
    """The call that it was, in short."""


class ResourceSample(Struct, frozen=True):
    """A sample of the test's process and its children."""

    time: float
    """Seconds since the epoch."""
    memory_mb: float
    cpu_percent: float


class CachedResult(Struct, frozen=True):
    """A result in the cache; the times since and until it was kept are seconds since the epoch."""

    key: str
    amount: float
    """Size by the metric of the cache profiler."""
    cached: float
    freed: float
    task: str = ""
    """The call that returned it, in short."""


class LocalScheduler(Struct, frozen=True):
    """Results of `Profiler`, `ResourceProfiler` and `CacheProfiler`."""

    tasks: tuple[LocalTask, ...]
    resources: tuple[ResourceSample, ...]
    cache: tuple[CachedResult, ...]
    cache_metric: str
    """`bytes`, `count`, or the name of the user's own metric."""
    begun: float = 0.0
    """When the first run of the body began, in seconds since the epoch."""
    interval_s: float | None = None
    """Seconds between samples of resources."""


class Phase(Struct, frozen=True):
    """One phase of a computation."""

    where: str
    """`client`, `scheduler` or `workers`."""
    name: str
    cpu_seconds_per_task: float


class Phases(Struct, frozen=True):
    """All phases of a computation, in order."""

    tasks: int
    phases: tuple[Phase, ...]
    sampled_by: str
    """The backend that sampled the scheduler's phases; empty if none did."""
    samples: int = 0
    """Busy samples that the scheduler's phases are shares of."""
