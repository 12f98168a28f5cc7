"""Kinds of evidence of schedulers in the test's own process, which begin and end within the body.

They open no connection and start no thread. Workers in other processes are not seen.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from distributed import Scheduler, Worker
from distributed.core import Status
from tornado.ioloop import PeriodicCallback

from pytest_schedprof.agent import instruments, recordings, spans
from pytest_schedprof.clusters.in_process import Observer, observing
from pytest_schedprof.evidence.contract import (
    NONE_HERE,
    Brought,
    EvidenceUnavailableError,
    Kind,
    ObservedTest,
)
from pytest_schedprof.evidence.memory import (
    INTERVAL_S,
    MemoryKind,
    MemoryOptions,
    brought_memory,
    measures_of,
)
from pytest_schedprof.evidence.span import SpanKind, brought_spans, span_around
from pytest_schedprof.evidence.tasks import TasksKind, brought_tasks
from pytest_schedprof.evidence.transfers import TransfersKind, brought_transfers
from pytest_schedprof.model.evidence import MemorySamples
from pytest_schedprof.model.result import BackendResult

NO_WORKER = "no worker of the test ran in its own process"

SAME_MEMORY = "workers were in the test's process: `process` has its memory once for each of them"

SEVERAL = "the spans are merged only within each scheduler: `merged` is of the last one"


class _InProcess(Kind, Observer, name="here", description="observes schedulers of this process"):
    """Observes whatever lives in each run of the body."""

    number = 0

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        self.number = number
        with observing(self):
            yield


class MemoryInProcess(_InProcess, name="memory", description=MemoryKind.description, needs=[]):
    """Samples what each scheduler knows of its workers' memory, also when one of them leaves."""

    options_type = MemoryOptions

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        self._samples: dict[int, list[tuple[float, Any]]] = {}
        self._samplers: dict[Scheduler, PeriodicCallback] = {}

    def begin(self, scheduler: Scheduler) -> None:
        """Sample in the scheduler's event loop."""
        interval_s = self.options.interval or INTERVAL_S
        sampler = PeriodicCallback(lambda: self._sample(scheduler), interval_s * 1000)
        self._samplers[scheduler] = sampler
        sampler.start()
        self._sample(scheduler)

    def _sample(self, scheduler: Scheduler) -> None:
        sample = time.time(), scheduler.memory
        self._samples.setdefault(self.number, []).append(sample)

    def leave(self, worker: Worker) -> None:
        """Take the last sample that has this worker."""
        for scheduler in self._samplers:
            if scheduler.address == worker.scheduler.address:
                self._sample(scheduler)

    def end(self, scheduler: Scheduler) -> None:
        self._samplers.pop(scheduler).stop()

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        if not self._samples:
            raise EvidenceUnavailableError(NONE_HERE)
        samples = [
            MemorySamples(
                run,
                measure,
                tuple((moment, getattr(held, measure)) for moment, held in held_by_time),
            )
            for run, held_by_time in self._samples.items()
            for measure in measures_of(self.options, self.test.limits)
        ]
        return brought_memory(samples, (SAME_MEMORY,))


class TasksInProcess(_InProcess, name="tasks", description=TasksKind.description, needs=[]):
    """Reads the task stream of each scheduler when it ends."""

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        self._firsts: dict[Scheduler, tuple[str, int, Mapping[str, float]]] = {}
        self._answers: list[dict[str, Any]] = []
        self._finished = 0
        self._spent: Counter[str] = Counter()

    def begin(self, scheduler: Scheduler) -> None:
        """Start the stream, which is a plugin of the scheduler."""
        token = instruments.hold("", scheduler)
        first = instruments.watch(token, scheduler)
        self._firsts[scheduler] = token, first, instruments.activities(scheduler)

    def end(self, scheduler: Scheduler) -> None:
        token, first, before = self._firsts.pop(scheduler)
        last = instruments.so_far(scheduler)
        tasks = instruments.tell_tasks(first, last, scheduler)
        self._answers += [{"take": self.number, **task} for task in tasks]
        self._finished += last - first
        self._spent.update(instruments.activities(scheduler))
        self._spent.subtract(before)
        recordings.remove(token, scheduler)

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        return brought_tasks(self._answers, self._finished, self._spent)


class TransfersInProcess(
    _InProcess, name="transfers", description=TransfersKind.description, needs=[]
):
    """Reads the logs of each worker when it closes."""

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        self._sizes: dict[int, list[int]] = {}
        self._are_all = True
        self._answers: list[dict[str, Any]] = []

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        """Note what the logs of living workers have already."""
        self._begun_at = time.time()
        living = [worker for worker in list(Worker._instances) if worker.status == Status.running]
        self._marks = {worker.address: instruments.last_incoming(worker) or "" for worker in living}
        self._sizes[number] = []
        with super().around(number):
            yield

    def leave(self, worker: Worker) -> None:
        """Read the logs from the start of the run on."""
        logs = instruments.tell_transfers(self._begun_at, worker)
        self._answers.append({"address": worker.address, **(logs or {})})
        arrived = instruments.tell_sizes(self._marks, worker)
        self._sizes[self.number] += arrived or ()
        self._are_all &= arrived is not None

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        if not self._answers:
            raise EvidenceUnavailableError(NO_WORKER)
        return brought_transfers(self._answers, self._sizes, self._are_all)


class SpanInProcess(_InProcess, name="span", description=SpanKind.description, needs=[]):
    """Opens a span around each run of the body, and reads it when the scheduler ends."""

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        self._ids: list[str] = []
        self._before: dict[Scheduler, list[str]] = {}
        """IDs of the spans that each scheduler had before the run of the body."""
        self._answers: list[dict[str, Any]] = []
        self._problem = NONE_HERE

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        """Open a span: tasks that are submitted meanwhile belong to it."""
        with span_around(self.test.test_id) as name, super().around(number):
            self._ids.append(name)
            yield

    def begin(self, scheduler: Scheduler) -> None:
        self._before[scheduler] = spans.known_spans(scheduler)

    def end(self, scheduler: Scheduler) -> None:
        answer = spans.tell_spans(self._ids[-1:], self._before.pop(scheduler), scheduler)
        self._problem = answer.get("problem", "")
        if not self._problem:
            self._answers.append(answer)

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        if not self._answers:
            raise EvidenceUnavailableError(self._problem)
        takes = [take for answer in self._answers for take in answer["takes"]]
        notes = (SEVERAL,) if len(self._answers) > 1 else ()
        return brought_spans({**self._answers[-1], "takes": takes}, notes)


HERE: Mapping[type[Kind], type[Kind]] = {
    MemoryKind: MemoryInProcess,
    TasksKind: TasksInProcess,
    TransfersKind: TransfersInProcess,
    SpanKind: SpanInProcess,
}
"""What gathers a kind in the test's own process."""
