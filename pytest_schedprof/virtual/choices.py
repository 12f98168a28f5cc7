"""The decisions of a window: which worker gets which task, and what the scheduler compared for it.

A decision is noted when it is made, not when the worker hears of it: the occupancy of a worker is
another one a moment later. Reading it calls functions of the scheduler that `counts` counts, so the
functions here that do so are among its `CLOCKWORK`, whose calls are not counted.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from math import isfinite
from typing import Any

from distributed import Scheduler, SchedulerPlugin

from pytest_schedprof.virtual.lines import Line
from pytest_schedprof.virtual.loop import VirtualLoop
from pytest_schedprof.virtual.tables import Names, Table

MOST = 64
"""Workers that are looked at for one decision. If there are more to choose from, only their number
is kept."""

NOBODY = (-1, 0, 0, 0)

COMPUTE, STEAL, STOLEN = range(3)
"""A task is sent to a worker; a worker is asked to give it back; another one gets it."""


class Choices(SchedulerPlugin):
    """Keeps the decisions while a window is open; does nothing outside of one."""

    name = "schedprof-choices"

    def __init__(self, scheduler: Scheduler, loop: VirtualLoop) -> None:
        self._scheduler: Any = scheduler
        self._loop = loop
        self._window: _Decided | None = None

    def begin(self, keys: Names, workers: Names, begun: float) -> None:
        """Begin a window."""
        self._window = _Decided(self._scheduler, keys, workers, begun)

    def end(self) -> dict[str, list[Any]]:
        """End the window; return its decisions by column."""
        window, self._window = self._window, None
        assert window is not None
        window.complete()
        return window.table.columns()

    def transition(self, key: Any, start: Any, finish: Any, *args: Any, **kwargs: Any) -> None:
        """Note which worker the scheduler chose, before it chooses for any other task."""
        if finish == "processing" and self._window is not None:
            self._window.chosen(self._loop.now, self._scheduler.tasks[key])

    def sent(self, address: str, messages: Collection[dict[str, Any]]) -> None:
        """Note what the scheduler says to a worker."""
        if self._window is not None:
            for message in messages:
                if message["op"] in ("compute-task", "steal-request"):
                    self._window.sent(self._loop.now, address, message)


class ChoosingLine(Line):
    """A line from the scheduler to a worker, on which decisions are noted."""

    choices: Choices
    address: str

    def send(self, *messages: dict[str, Any]) -> None:
        """Send messages with the next batch."""
        super().send(*messages)
        self.choices.sent(self.address, messages)


class _Decided:
    """The decisions of one window."""

    def __init__(self, scheduler: Any, keys: Names, workers: Names, begun: float) -> None:
        self.table = Table(
            "at", "kind", "key", "worker", "occupancy", "processing", "fetch", "others",
            "other", "other_occupancy", "other_processing", "other_fetch",
        )  # fmt: skip
        self._scheduler = scheduler
        self._keys, self._workers = keys, workers
        self._begun = begun
        self._to_be_sent: set[Any] = set()
        """Keys of tasks that a worker was chosen for, and that are sent to it by and by."""
        self._thefts: list[tuple[int, Any]] = []
        """Rows of thefts, and their tasks. Who steals is known after the message was sent."""

    def chosen(self, now: float, task: Any) -> None:
        """Note the worker that was chosen for a task, which is among its tasks already."""
        self._to_be_sent.add(task.key)
        worker = task.processing_on
        others, best = self._others(task, worker)
        self._add(now, COMPUTE, task, self._state_before(task, worker), others, best)

    def sent(self, now: float, address: str, message: dict[str, Any]) -> None:
        """Note a theft, or a task that is sent because it was stolen."""
        task = self._scheduler.tasks.get(message["key"])
        worker = self._scheduler.workers.get(address)
        if task is None or worker is None:
            return
        if message["op"] == "steal-request":
            self._thefts.append((len(self.table.rows), task))
            self._add(now, STEAL, task, self._state(task, worker), 1, NOBODY)
        elif task.key in self._to_be_sent:
            self._to_be_sent.remove(task.key)
        else:
            self._add(now, STOLEN, task, self._state_before(task, worker), 0, NOBODY)

    def complete(self) -> None:
        """Add to each theft who steals."""
        stealing = self._scheduler.extensions.get("stealing")
        for row, task in self._thefts:
            info = stealing.in_flight.get(task) if stealing else None
            if info is not None:
                self.table.rows[row][-4:] = self._state(task, info["thief"])
        self._thefts.clear()

    def _add(self, now: float, kind: int, task: Any, state: Any, others: int, best: Any) -> None:
        if self._thefts and kind != STEAL:
            self.complete()
        at = round((now - self._begun) * 1e6)
        self.table.rows.append([at, kind, self._keys[task.key], *state, others, *best])

    def _others(self, task: Any, chosen: Any) -> tuple[int, tuple[int, int, int, int]]:
        """Return how many other workers the scheduler had to choose from, and the best of them."""
        scheduler = self._scheduler
        if scheduler.is_rootish(task):
            found = scheduler.idle.values()
            how = _load if isfinite(scheduler.WORKER_SATURATION) else None
        else:
            found = _holders(task) if task.dependencies else scheduler.idle.values()
            how = None
        if len(found) > MOST:
            return len(found) - 1, NOBODY
        pool = [each for each in found if each is not chosen and each in scheduler.running]
        if not pool:
            return 0, NOBODY
        best = min(pool, key=how or partial(scheduler.worker_objective, task))
        return len(pool), self._state(task, best)

    def _state(self, task: Any, worker: Any) -> tuple[int, int, int, int]:
        """Return the worker, and what the scheduler sees of it with regard to the task."""
        occupancy = round(worker.occupancy * 1e6)
        return (
            self._workers[worker.address],
            occupancy,
            len(worker.processing),
            _fetch(task, worker),
        )

    def _state_before(self, task: Any, worker: Any) -> tuple[int, int, int, int]:
        """Return the same as it was before the worker was given the task."""
        counts = dict(worker.task_prefix_count)
        counts[task.prefix.name] = counts.get(task.prefix.name, 1) - 1
        needs = (each for each in task.dependencies if worker.needs_what.get(each) == 1)
        network = max(0, worker._network_occ - sum(each.get_nbytes() for each in needs))
        occupancy = self._scheduler._calc_occupancy(counts, network)
        number, _, processing, fetch = self._state(task, worker)
        return number, round(occupancy * 1e6), processing - 1, fetch


def _holders(task: Any) -> dict[Any, None]:
    """Return the workers that hold a dependency of the task."""
    return {each: None for dependency in task.dependencies for each in dependency.who_has or ()}


def _load(worker: Any) -> float:
    """Return by what the scheduler compares workers for a task that may be queued."""
    return float(len(worker.processing) / worker.nthreads)


def _fetch(task: Any, worker: Any) -> int:
    """Return the bytes that the worker would have to fetch for the task."""
    missing = (each for each in task.dependencies if each not in worker.has_what)
    return sum(each.get_nbytes() for each in missing)
