"""What `schedprof capacity` measures, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

SCHEMA_VERSION = 1
"""Incremented when a reader of old records would misread a new one."""


@dataclass(frozen=True, slots=True)
class Point:
    """Figures of one cluster at one size."""

    workers: int
    threads: int
    """Threads of all workers together."""
    tasks: int
    """Tasks of one round, as the scheduler counted them."""
    prefixes: int
    """Prefixes among them that the ladder asked for; 0 if the workload has its own."""
    cpu: tuple[float, ...]
    """Seconds of the scheduler's CPU time per task, in each round, without what it needs anyway."""
    rate: float
    """Tasks a second by the clock, in the fastest round."""
    stall: float
    """CPU seconds of the longest callback of the event loop; 0 if it was not timed."""
    stalled_by: str
    """The function that this callback ran."""
    lag: float
    """The most that a timer of the event loop was late, in CPU seconds of its thread."""
    idle: float
    """Fraction of a core that the scheduler needs while there is no work."""
    memory: float
    """Bytes of the scheduler's process after the work."""

    @property
    def cost(self) -> float:
        """Seconds per task of the middle round.

        Not of the cheapest: small sizes have more rounds, of which the least is the smaller.
        """
        return median(self.cpu)


@dataclass(frozen=True, slots=True)
class Load:
    """What happened while graphs arrived at a fixed rate, whether the scheduler kept up or not."""

    asked: float
    """Tasks a second that arrived."""
    ended: float
    """Tasks a second that ended."""
    late: float
    """Seconds by which the last graph ended too late."""
    stall: float
    """CPU seconds of the longest callback of the event loop."""
    lag: float
    """The most that a timer of the event loop was late, in CPU seconds of its thread."""
    busy: float
    """Fraction of a core that the scheduler needed."""
    broken: str
    """What it did not keep: `stall`, `lag`, or `late`; empty if it carried the load."""


@dataclass(frozen=True, slots=True)
class ByLoad:
    """The highest rate of tasks that a scheduler carries, found by raising the load."""

    workers: int
    rate: float
    """The highest rate that it carried; 0 if it carried none that was tried."""
    failed: float | None
    """The lowest rate that it did not carry, twice; none if it carried all."""
    loads: tuple[Load, ...]
    """What was tried, in order."""


@dataclass(frozen=True, slots=True)
class Look:
    """How long a bytecode takes of what is done for each worker, one after the other."""

    workers: int
    seconds: tuple[float, ...]
    """CPU time, measured once on each cluster."""


@dataclass(frozen=True, slots=True)
class Sweeps:
    """What a scheduler does for each worker while it works on one task."""

    bytecodes: float
    """Per task and worker, as counts of small clusters tell; 0 if nothing is done for each."""
    functions: tuple[str, ...]
    """Whose these are, the dearest first."""
    looks: tuple[Look, ...]
    """By number of workers."""


@dataclass(frozen=True, slots=True)
class Measured:
    """All that was measured of one scheduler."""

    name: str
    """What the other side is called by who asked for it; empty for the scheduler of this side."""
    distributed: str
    python: str
    workers: tuple[Point, ...]
    """Clusters with more and more workers."""
    tasks: tuple[Point, ...]
    """One cluster, with more and more tasks."""
    prefixes: tuple[Point, ...]
    """The same cluster and number of tasks, with more and more prefixes."""
    by_load: ByLoad | None = None
    """The highest rate on a cluster of the smallest size; none if it was not looked for."""
    sweeps: Sweeps | None = None
    """None if nothing was counted."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a scheduler must keep in order to count as carrying its load, in seconds."""

    stall: float
    lag: float


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks for."""

    shape: str
    file: str
    """A recorded workload, instead of the shape; empty for none."""
    workers: tuple[int, ...]
    threads: int
    tasks: int
    """Tasks of a round for each thread."""
    repeats: int
    sizes: tuple[int, ...]
    """Numbers of workers to forecast."""
    durations: tuple[float, ...]
    bounds: Bounds
    against: str = ""
    cluster: str = "simulated"
    """Kind of the clusters."""
    options: Mapping[str, str] = field(default_factory=dict)
    by_load: bool = True
    """Whether to look for the highest rate by raising the load."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A value with the bounds of what a measurement will give."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class AtSize:
    """What is expected of a number of workers."""

    workers: int
    threads: int
    cost: Forecast
    """Seconds of CPU per task."""
    stall: Forecast
    lag: Forecast
    memory: Forecast
    is_measured: bool
    """Whether the size lies within those that were measured."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """How many threads keep one core of the scheduler busy."""

    seconds: float
    """How long a task takes."""
    threads: Forecast


@dataclass(frozen=True, slots=True)
class Growth:
    """The exponent with which the cost of a task grows."""

    what: str
    """`workers`, `tasks` or `prefixes`."""
    least: int
    most: int
    exponent: Forecast


@dataclass(frozen=True, slots=True)
class Most:
    """The largest number of workers that keeps a bound."""

    what: str
    """`stall` or `lag`."""
    bound: float
    workers: Forecast
    """By the law."""
    kept: int
    """The largest size at which a cluster was measured that kept the bound, below any size at
    which none did; 0 if there is none."""
    passed: int
    """The smallest size at which no cluster kept it; 0 if there is none."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What one scheduler carries."""

    measured: Measured
    law: str
    """How the cost of a task depends on the number of workers."""
    rate: float
    """The most tasks a second: one core divided by the cost at the size where that is lowest."""
    rate_at: int
    """That number of workers."""
    sizes: tuple[AtSize, ...]
    growth: tuple[Growth, ...]
    saturation: tuple[Saturation, ...]
    most: tuple[Most, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """The cost of a task here, as a multiple of the cost on the other side."""

    workers: int
    ratio: Forecast


@dataclass(frozen=True, slots=True)
class Capacity:
    """capacity.json: what a scheduler carries, and what another one does."""

    machine: str
    measured_at: str
    cluster: str
    """Kind of the clusters."""
    workload: str
    """Name of the shape, or path of the recorded workload."""
    tasks_a_thread: int
    threads_a_worker: int
    bounds: Bounds
    sides: tuple[Carried, ...]
    """The scheduler of this side, and the other one if there is one."""
    changes: tuple[Change, ...]
    seconds: float
    """How long it took to measure."""
    schema_version: int = SCHEMA_VERSION
