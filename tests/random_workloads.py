"""Recorded workloads of any shape, made from seeds."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st

from pytest_schedprof.formats.workload import MICRO
from pytest_schedprof.model.workload import (
    Graph,
    Group,
    Release,
    Result,
    Task,
    WorkerEvent,
    Workload,
)

PREFIXES = ("load", "sum", "sum-partial", "read-parquet", "my_secret")
RESOURCES = ("GPU", "database")
CLIENTS, WORKERS, GROUPS = 3, 4, 20
BEGUN = ("2026-11-23T14:20:42+00:00", "2026-11-23T16:00:00+01:00", "")
RELEASES = ("2026.8.0", "2024.8.1")


@dataclass
class Maker:
    """Makes a workload whose tasks need tasks that came before, in any order within a graph."""

    seed: int
    graphs: int
    tasks: int
    events: int
    random: Random = field(init=False)
    known: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.numbers = self.random.sample(range(100), 100)

    def make(self) -> Workload:
        graphs = [self.graph(time) for time in self.times(self.graphs)]
        return Workload(
            self.random.choice(RELEASES),
            self.random.choice(BEGUN),
            float(self.random.randrange(10**9)),
            graphs,
            [self.release(time) for time in self.times(self.events)],
            [self.worker(time) for time in self.times(self.events)],
            results={n: self.result() for n in self.known if self.random.random() < 0.7},
        )

    def times(self, count: int) -> list[float]:
        return sorted(self.time() for _ in range(count))

    def time(self) -> float:
        return self.random.randrange(10**8) / MICRO

    def some(self) -> list[int]:
        return self.random.sample(self.known, min(len(self.known), self.random.randrange(4)))

    def graph(self, time: float) -> Graph:
        tasks = [self.task() for _ in range(self.random.randrange(self.tasks + 1))]
        self.random.shuffle(tasks)
        return Graph(time, self.random.randrange(CLIENTS), tasks, self.some())

    def task(self) -> Task:
        number = self.random.choice([None, self.random.randrange(GROUPS)])
        group = Group(self.random.choice(PREFIXES), number)
        task = Task(self.numbers.pop(), group, self.some(), self.annotations())
        self.known.append(task.number)
        return task

    def annotations(self) -> dict[str, Any]:
        all_of_them = {
            "priority": self.random.randrange(-5, 6),
            "retries": self.random.randrange(1, 4),
            "resources": {self.random.choice(RESOURCES): self.random.random()},
            "workers": self.random.sample(range(WORKERS), 2),
            "allow_other_workers": True,
        }
        return {name: value for name, value in all_of_them.items() if self.random.random() < 0.2}

    def result(self) -> Result:
        failed = [self.time() for _ in range(self.random.choice([0, 0, 0, 1, 3]))]
        is_error = self.random.random() < 0.1
        return Result(self.time(), self.time(), self.random.randrange(2**40), is_error, (*failed,))

    def release(self, time: float) -> Release:
        return Release(time, self.random.randrange(CLIENTS), self.some())

    def worker(self, time: float) -> WorkerEvent:
        has_joined = self.random.random() < 0.7
        is_retired = not has_joined and self.random.random() < 0.5
        return WorkerEvent(time, self.random.randrange(WORKERS), has_joined, 2, 2**32, is_retired)


def workloads() -> st.SearchStrategy[Workload]:
    """Return a strategy of workloads, which become smaller if a test fails."""
    makers = st.builds(
        Maker, st.integers(0, 2**32), st.integers(0, 4), st.integers(0, 12), st.integers(0, 5)
    )
    return makers.map(Maker.make)
