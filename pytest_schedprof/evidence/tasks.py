"""The kind `tasks`: every task that workers finished, when, where, and what it waited for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import fmean
from typing import Any

import msgspec
from dask.utils import key_split
from msgspec.structs import replace

from pytest_schedprof.agent import instruments, recordings, spans
from pytest_schedprof.control.control import Control
from pytest_schedprof.evidence.contract import (
    Brought,
    EvidenceUnavailableError,
    Kind,
    ObservedTest,
    RunFigures,
    page,
    with_pictures,
)
from pytest_schedprof.model.evidence import TaskRecord, TaskStream, WorkerTimes
from pytest_schedprof.model.result import BackendResult


class Stream:
    """A task stream that records tasks while it is watched; all kinds of a test share it."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._token: str = control.call(instruments.hold, control.client_id)

    @contextmanager
    def watched(self) -> Iterator[int]:
        """Record tasks meanwhile; yield the number of tasks that were recorded before."""
        first = self._control.call(instruments.watch, self._token)
        try:
            yield first
        finally:
            self._control.call(instruments.unwatch, self._token)

    def close(self) -> None:
        """Release the stream; it is removed when no kind holds it."""
        self._control.call(recordings.discard, self._token)


AT_ONCE = 5000
"""Number of tasks that the scheduler sends in one answer."""

SERIALISATION = ("serialize", "deserialize", "compress", "decompress")
DISK = ("disk-read", "disk-write", "memory-read")
EXECUTION = ("thread-cpu", "thread-noncpu")
TRANSFER = ("network",)


def tasks_picture(tasks: Sequence[TaskRecord]) -> bytes:
    """Draw tasks with dask's own plot of the task stream."""
    from distributed.dashboard.components.scheduler import task_stream_figure
    from distributed.diagnostics.task_stream import rectangles

    source, plot = task_stream_figure(sizing_mode="stretch_both")
    as_dask_has_them = [
        {
            "key": task.key,
            "worker": task.worker,
            "thread": task.thread,
            "status": "error" if task.has_failed else "OK",
            "startstops": [msgspec.to_builtins(time) for time in task.times],
        }
        for task in tasks
    ]
    source.data.update(rectangles(as_dask_has_them))
    return page(plot, "task stream")


class TasksKind(Kind, name="tasks", description="the task stream"):
    """Reads dask's task stream and the times that workers measured of their own activities."""

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        self._control = test.scheduler.control
        self._stream = Stream(self._control)
        self._answers: list[dict[str, Any]] = []
        self._finished = 0
        self._spent: Counter[str] = Counter()

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        """Keep the task stream running, and fetch the tasks of this run at its end."""
        before = self._activities()
        with self._stream.watched() as first:
            yield
            last = self._control.call(instruments.so_far)
            self._answers += self._fetch(number, first, last)
            self._finished += last - first
        self._spent.update(self._activities())
        self._spent.subtract(before)

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        return brought_tasks(self._answers, self._finished, self._spent)

    def close(self) -> None:
        self._stream.close()

    def _fetch(self, number: int, first: int, last: int) -> Iterator[dict[str, Any]]:
        for begin in range(first, last, AT_ONCE):
            end = min(begin + AT_ONCE, last)
            for task in self._control.call(instruments.tell_tasks, begin, end):
                yield {"take": number, **task}

    def _activities(self) -> dict[str, float]:
        self._control.call_workers(spans.beat)
        seconds: dict[str, float] = self._control.call(instruments.activities)
        return seconds


def brought_tasks(
    answers: Sequence[Mapping[str, Any]], finished: int, spent: Mapping[str, float]
) -> Brought:
    """Return tasks with a picture and their durations.

    Args:
        answers: each task, as the agent tells it, with its run.
        finished: the number of tasks that there were.
        spent: seconds of workers by activity.
    """
    tasks = tuple(msgspec.convert(answer, TaskRecord) for answer in answers)
    if not tasks:
        raise EvidenceUnavailableError("no worker finished a task of the test")
    lost = f"the first {finished - len(tasks)} of {finished} tasks were too many to be kept"
    brought = with_pictures(
        {"tasks.json": msgspec.json.encode(TaskStream(tasks, _seconds(tasks, spent)))},
        {"tasks.html": lambda: tasks_picture(tasks)},
        (lost,) if finished > len(tasks) else (),
    )
    return replace(brought, figures=_durations(tasks))


def _durations(tasks: Iterable[TaskRecord]) -> list[RunFigures]:
    """Return the mean time that tasks computed in each run, of all and of each prefix."""
    durations: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for task in tasks:
        spent = sum(time.stop - time.start for time in task.times if time.action == "compute")
        for subject in ("", key_split(task.key)):
            durations[subject][task.take].append(spent)
    return [
        RunFigures(
            "duration",
            subject,
            {run: fmean(spent_of_tasks) for run, spent_of_tasks in runs.items()},
        )
        for subject, runs in durations.items()
    ]


def _seconds(tasks: Iterable[TaskRecord], activities: Mapping[str, float]) -> WorkerTimes:
    """Combine the times of tasks with workers' metrics: only the former tell of gathering."""

    def spent(names: Iterable[str]) -> float:
        return sum(activities.get(name, 0.0) for name in names)

    waits = (time for task in tasks for time in task.times if time.action == "transfer")
    return WorkerTimes(
        serialisation=spent(SERIALISATION),
        gathering=sum(time.stop - time.start for time in waits),
        disk=spent(DISK),
        execution=spent(EXECUTION),
        transfer=spent(TRANSFER),
    )
