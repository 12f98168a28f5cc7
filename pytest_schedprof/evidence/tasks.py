"""Every task that workers finished: when, where, and what it waited for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from pytest_schedprof.agent import spans, task_stream
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.evidence.contract import Brought, EvidenceUnavailableError
from pytest_schedprof.evidence.pictures import as_json, tasks_picture, with_pictures
from pytest_schedprof.model.evidence import TaskRecord, TaskStream, WorkerTimes
from pytest_schedprof.model.result import BackendResult

AT_ONCE = 5000
"""Tasks that the scheduler tells in one answer."""

SERIALISATION = ("serialize", "deserialize", "compress", "decompress")
DISK = ("disk-read", "disk-write", "memory-read")
EXECUTION = ("thread-cpu", "thread-noncpu")
TRANSFER = ("network",)


class TasksKind:
    """Dask's task stream, and what workers measured of their own doings."""

    def __init__(self, scheduler: SchedulerUnderTest, test_id: str) -> None:
        self._control = scheduler.control
        self._takes: list[tuple[int, int, int]] = []
        self._before = self._activities()
        self._control.call(task_stream.watch)

    @contextmanager
    def take(self, number: int) -> Iterator[None]:
        """Remember which tasks came meanwhile."""
        first = self._control.call(task_stream.so_far)
        try:
            yield
        finally:
            self._takes.append((number, first, self._control.call(task_stream.so_far)))

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """As JSON, with dask's own picture."""
        try:
            tasks = tuple(task for take in self._takes for task in self._fetch(*take))
        finally:
            self._control.call(task_stream.unwatch)
        if not tasks:
            raise EvidenceUnavailableError("no worker finished a task of the test")
        stream = TaskStream(tasks, _seconds(tasks, self._before, self._activities()))
        wanted = sum(last - first for _, first, last in self._takes)
        lost = f"the first {wanted - len(tasks)} of {wanted} tasks were too many to be kept"
        return with_pictures(
            {"tasks.json": as_json(stream)},
            {"tasks.html": lambda: tasks_picture(tasks)},
            (lost,) if wanted > len(tasks) else (),
        )

    def _fetch(self, take: int, first: int, last: int) -> Iterator[TaskRecord]:
        for begin in range(first, last, AT_ONCE):
            end = min(begin + AT_ONCE, last)
            for told in self._control.call(task_stream.tell_tasks, begin, end):
                yield msgspec.convert({"take": take, **told}, TaskRecord)

    def _activities(self) -> Mapping[str, float]:
        self._control.call_workers(spans.beat)
        found: Mapping[str, float] = self._control.call(task_stream.activities)
        return found


def _seconds(
    tasks: Iterable[TaskRecord], before: Mapping[str, float], after: Mapping[str, float]
) -> WorkerTimes:
    """By the tasks' own account and by the workers' metrics: neither tells all."""

    def spent(names: Iterable[str]) -> float:
        return sum(after.get(name, 0.0) - before.get(name, 0.0) for name in names)

    waits = (each for task in tasks for each in task.times if each.action == "transfer")
    return WorkerTimes(
        serialisation=spent(SERIALISATION),
        gathering=sum(each.stop - each.start for each in waits),
        disk=spent(DISK),
        execution=spent(EXECUTION),
        transfer=spent(TRANSFER),
    )
