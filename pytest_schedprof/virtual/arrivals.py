"""The start of thousands of workers, and what makes them cheap."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from distributed import Scheduler, SchedulerPlugin, versions
from distributed.worker_state_machine import StateMachineEvent, TaskState, WorkerState

from pytest_schedprof.virtual.worker import VirtualWorker, name_for_scheduler

logger = logging.getLogger("distributed.scheduler")


def in_order_of_sets(count: int) -> list[str]:
    """Return the names of workers in the order in which the scheduler's sets of them will be.

    With queuing, the scheduler scans the set of idle workers for each root task. If they lie in
    memory in the order of that set, a scan of 10,000 took 92 to 106 ns a worker instead of 195 to
    310, in a loop over nothing but workers; in a cluster it has not been measured.
    """
    mask = (1 << (2 * count).bit_length()) - 1  # a set of so many has a table of that size
    names = (f"{number}" for number in range(count))
    return sorted(names, key=lambda name: hash(name_for_scheduler(name)) & mask)


async def join_all(workers: Sequence[VirtualWorker]) -> None:
    """Let all of them join.

    Afterwards garbage is collected a hundred times less often, and never among what lives now: a
    collection would visit thousands of workers, which no scheduler has in its process.
    """
    gc.disable()
    with few_words():
        for worker in workers:
            worker.join()
        while not all(worker.has_joined() for worker in workers):
            await asyncio.sleep(0)
    logger.info("%d workers have joined", len(workers))
    gc.freeze()
    gc.set_threshold(70_000, 10, 10)
    gc.enable()


@contextmanager
def few_words() -> Iterator[None]:
    """Log nothing about single workers: that took a quarter of the time to join."""
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


SAME = {"warning": "", "error": ""}
NOTHING: dict[str, Any] = {}


class Arrival(SchedulerPlugin):
    """Replaces the version check until the expected number of workers has joined."""

    name = "schedprof-arrival"

    def __init__(self, count: int) -> None:
        self.count = count
        self._joining: Scheduler | None = None
        """The scheduler from the moment when a worker joins until it asks for its own versions."""
        self._hiding: Scheduler | None = None
        """The scheduler from then on, until it compares."""
        self._compare, self._own = versions.error_message, versions.get_versions
        versions.error_message = self._same
        versions.get_versions = self._hide_others

    def _hide_others(self, *args: Any, **keywords: Any) -> Any:
        """Return the versions here; if a worker joins, hide the others from what follows."""
        if self._joining is None:
            return self._own(*args, **keywords)
        self._hiding, self._joining = self._joining, None
        vars(self._hiding.workers)["items"] = tuple
        return NOTHING

    def _same(self, *args: Any, **keywords: Any) -> dict[str, str]:
        if self._hiding is not None:
            del vars(self._hiding.workers)["items"]
            self._hiding = None
        return SAME

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Restore the check and remove this plugin once the last expected worker joins."""
        self._joining = scheduler
        if len(scheduler.workers) >= self.count:
            self._joining = None
            versions.error_message, versions.get_versions = self._compare, self._own
            scheduler.remove_plugin(name=self.name)


def expect(count: int) -> dict[str, Any]:
    """Return the keywords of a scheduler that this number of hollow workers will join."""
    return {"plugins": [Arrival(count)]} if count else {}


def leave_out_debugging() -> None:
    """Make events of state machines cheaper."""

    def not_copied(event: StateMachineEvent, *, handled: float) -> StateMachineEvent:
        return event  # the log is empty in hollow workers

    for kind in list(StateMachineEvent._classes.values()):
        if "to_loggable" in vars(kind):
            kind.to_loggable = not_copied  # type: ignore[method-assign, assignment]

    TaskState._instances = _NoTasks()  # type: ignore[assignment]
    find: Callable[..., Any] = vars(WorkerState)["_handle_event"].dispatcher.dispatch

    def handle(state: WorkerState, event: StateMachineEvent) -> Any:
        """Call the handler as `singledispatchmethod` does, without making a function each time."""
        return find(type(event))(state, event)

    WorkerState._handle_event = handle  # type: ignore[method-assign, assignment]


class _NoTasks:
    """Replaces the set of all tasks of the process, which only distributed's tests read."""

    def add(self, task: TaskState) -> None:
        """Do nothing."""
