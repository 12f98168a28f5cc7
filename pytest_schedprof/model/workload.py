"""A recorded workload: what a scheduler was asked, and what each task took in reality.

Processes of clusters read one where msgspec may not be installed, so these are dataclasses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Key = str | tuple[str, int]
"""The name of a recorded task: its prefix and its number, or its group and its number."""

ACTOR = "actor"
"""The annotation of tasks that are actors. Clients name these beside a graph, not in it."""

LAST = 999_999_999
"""Numbers in names count down from here, so that they have the same number of digits."""


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks that the scheduler takes together, as those of one layer of a collection."""

    prefix: str
    number: int | None = None
    """None if the group is named as its prefix."""

    def key(self, task: int) -> Key:
        """Return the name of a task, from which dask reads this group and this prefix again.

        Numbers count down: of tasks that it cannot tell apart dask runs the one first whose name is
        the last one by the alphabet, and recorded tasks are numbered in the order of priority.
        """
        place = LAST - task
        return f"{self.prefix}-{place}" if self.number is None else (self.name, place)

    @property
    def name(self) -> str:
        return self.prefix if self.number is None else f"{self.prefix}-g{self.number}"


@dataclass(frozen=True, slots=True)
class Task:
    """A task as a client asked for it."""

    number: int
    group: Group
    dependencies: Sequence[int]
    annotations: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Graph:
    """Tasks that came together."""

    time: float
    """Seconds since the recording began."""
    client: int
    tasks: Sequence[Task]
    wanted: Sequence[int]
    """Tasks whose results the client keeps; some may have come with an earlier graph."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a task ended; the last of its runs."""

    time: float
    seconds: float
    nbytes: int
    is_error: bool
    failed: Sequence[float] = ()
    """Seconds of the runs before it that failed, of a task that was retried."""


@dataclass(frozen=True, slots=True)
class Release:
    """A client does not need the results of tasks any more."""

    time: float
    client: int
    tasks: Sequence[int]


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """A worker joined or left."""

    time: float
    worker: int
    has_joined: bool
    threads: int
    memory: int
    is_retired: bool = False
    """Whether it left after its results had been moved to others; else they were lost."""


@dataclass(slots=True)
class Workload:
    """Everything that a file holds, each kind in the order of its times."""

    distributed: str = ""
    """Release of the scheduler that was recorded."""
    begun: str = ""
    """When the recording began."""
    bandwidth: float = 0.0
    """Bytes per second of transfers as workers measured them last; 0 if nobody did."""
    graphs: list[Graph] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    workers: list[WorkerEvent] = field(default_factory=list)
    results: dict[int, Result] = field(default_factory=dict)
    is_cut: bool = False
    """Whether the end of the file is damaged, as after a crash; what came before is here."""

    def tasks(self) -> Iterator[Task]:
        """Yield all tasks in the order in which they came."""
        for graph in self.graphs:
            yield from graph.tasks

    @property
    def seconds(self) -> float:
        """When the last task came, ended or was released."""
        sent = max([graph.time for graph in self.graphs], default=0.0)
        released = max([release.time for release in self.releases], default=0.0)
        ended = max([result.time for result in self.results.values()], default=0.0)
        return max(sent, released, ended)


@dataclass(frozen=True, slots=True)
class Workforce:
    """What a cluster needs to have the workers of a recorded workload."""

    first: Sequence[WorkerEvent]
    """Those that were there when the first graph came, in the order in which they joined."""
    later: Sequence[WorkerEvent]
    """Who joined and who left afterwards."""

    @property
    def threads(self) -> int:
        """The number of threads that most of the first workers had."""
        counts = Counter(event.threads for event in self.first if event.threads)
        return counts.most_common(1)[0][0] if counts else 1


def workforce_of(workload: Workload) -> Workforce:
    """Return the workers of a recorded workload.

    A cluster has a worker at least. If there was none when the first graph came, as where they are
    started by need, the one that joined first counts as the first.
    """
    start = workload.graphs[0].time if workload.graphs else float("inf")
    first: dict[int, WorkerEvent] = {}
    later = [event for event in workload.workers if event.time > start]
    for event in workload.workers:
        if event.time <= start and event.has_joined:
            first[event.worker] = event
        elif event.time <= start:
            first.pop(event.worker, None)
    if not first and later and later[0].has_joined:
        first[later[0].worker] = later.pop(0)
    return Workforce(list(first.values()), later)
