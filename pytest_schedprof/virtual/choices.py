"""The decisions of a window, each with the figures that the scheduler compared for it.

A decision is noted when the scheduler makes it, not when the worker gets its message, because the
occupancy of workers changes meanwhile. To read the occupancy calls functions of the scheduler that
`counts` counts; so its `NOT_COUNTED` names the functions of this module that do this.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Collection, Sequence
from functools import partial
from math import isfinite
from types import FrameType
from typing import Any, TypeAlias

from dask import sizeof as sizeof_module
from distributed import Future, Scheduler

from pytest_schedprof.virtual import threads
from pytest_schedprof.virtual.conductor import Conductor
from pytest_schedprof.virtual.journal import Journal, Names, Table
from pytest_schedprof.virtual.lines import Line
from pytest_schedprof.virtual.loop import VirtualLoop

MOST = 64
"""Most workers that are compared for one decision. Of more candidates only the number is kept."""

State: TypeAlias = tuple[int, int, int, int]
"""A worker's number, its occupancy in microseconds, its number of tasks, and the bytes that it must
fetch."""

NOBODY: State = (-1, 0, 0, 0)

COMPUTE, STEAL, STOLEN = range(3)
"""The scheduler sends a task to a worker, asks a worker to give it back, sends it to the thief."""

QUEUE, SIBLINGS, BY_DATA, FREE, BY_THEFT = range(5)
"""The rule of a choice: for a root-ish task the idle worker with the fewest tasks, or the worker of
its siblings if there is no queue; a worker that holds dependencies; an idle worker; the thief."""


class Choices:
    """Keeps the scheduler's decisions while a window is open."""

    def __init__(self, scheduler: Scheduler, loop: VirtualLoop) -> None:
        self._scheduler: Any = scheduler
        self._loop = loop
        self._table: Table | None = None
        self._keys, self._workers, self._begun = Names(), Names(), 0.0
        self._to_be_sent: set[Any] = set()
        """Keys of tasks that are assigned to a worker and not yet sent."""
        self._thefts: list[tuple[list[Any], Any]] = []
        """Rows of thefts without a thief, and their tasks."""

    def begin(self, keys: Names, workers: Names, start: float) -> None:
        self._keys, self._workers, self._begun = keys, workers, start
        self._to_be_sent, self._thefts = set(), []
        self._table = Table(
            "at", "kind", "key", "worker", "occupancy", "processing", "fetch", "rule", "others",
            "other", "other_occupancy", "other_processing", "other_fetch",
        )  # fmt: skip

    def end(self) -> dict[str, list[Any]]:
        """End the window; return its decisions by column."""
        table, self._table = self._table, None
        assert table is not None
        return table.columns()

    def transition(self, key: Any, start: Any, finish: Any, *args: Any, **kwargs: Any) -> None:
        """Note the worker of a task before the scheduler decides about another task."""
        if finish == "processing" and self._table is not None:
            self._note_choice(self._scheduler.tasks[key], self._table)

    def sent(self, address: str, messages: Collection[dict[str, Any]]) -> None:
        """Note the decisions in messages to a worker."""
        if (table := self._table) is None:
            return
        for message in messages:
            if message["op"] in ("compute-task", "steal-request"):
                self._note_message(address, message, table)
            if message["op"] == "steal-request":
                self._loop.call_soon(self.complete)

    def complete(self) -> None:
        """Add the thieves, which are known when the requests have been sent."""
        stealing = self._scheduler.extensions.get("stealing")
        for row, task in self._thefts:
            info = stealing.in_flight.get(task) if stealing else None
            if info is not None:
                row[-4:] = self._state(task, info["thief"])
        self._thefts.clear()

    def _note_choice(self, task: Any, table: Table) -> None:
        """Note the worker of a task, which is among the worker's tasks already."""
        self._to_be_sent.add(task.key)
        worker = task.processing_on
        others = self._others(task, worker)
        table.rows.append(self._row(COMPUTE, task, self._state_before(task, worker), *others))

    def _note_message(self, address: str, message: dict[str, Any], table: Table) -> None:
        """Note a request to give a task back, or the message of a stolen task to the thief."""
        task = self._scheduler.tasks.get(message["key"])
        worker = self._scheduler.workers.get(address)
        if task is None or worker is None:
            return
        if message["op"] == "steal-request":
            row = self._row(STEAL, task, self._state(task, worker), BY_THEFT, 1)
            table.rows.append(row)
            self._thefts.append((row, task))
        elif task.key in self._to_be_sent:
            self._to_be_sent.remove(task.key)
        else:
            state = self._state_before(task, worker)
            table.rows.append(self._row(STOLEN, task, state, BY_THEFT, 0))

    def _row(
        self, kind: int, task: Any, state: State, rule: int, others: int, best: State = NOBODY
    ) -> list[Any]:
        moment = round((self._loop.now - self._begun) * 1e6)
        return [moment, kind, self._keys[task.key], *state, rule, others, *best]

    def _others(self, task: Any, chosen: Any) -> tuple[int, int, State]:
        """Return the rule of the choice, the number of other workers, and the best of them."""
        scheduler = self._scheduler
        if scheduler.is_rootish(task):
            rule = QUEUE if isfinite(scheduler.WORKER_SATURATION) else SIBLINGS
        else:
            rule = BY_DATA if task.dependencies else FREE
        candidates = _holders(task) if rule == BY_DATA else scheduler.idle.values()
        if len(candidates) > MOST:
            return rule, len(candidates) - 1, NOBODY
        others = [
            worker for worker in candidates if worker is not chosen and worker in scheduler.running
        ]
        if not others:
            return rule, 0, NOBODY
        objective = _load if rule == QUEUE else partial(scheduler.worker_objective, task)
        return rule, len(others), self._state(task, min(others, key=objective))

    def _state(self, task: Any, worker: Any) -> State:
        """Return the worker's number and the figures by which the scheduler compares workers."""
        occupancy = round(worker.occupancy * 1e6)
        missing = (needed for needed in task.dependencies if needed not in worker.has_what)
        fetch = sum(needed.get_nbytes() for needed in missing)
        return self._workers[worker.address], occupancy, len(worker.processing), fetch

    def _state_before(self, task: Any, worker: Any) -> State:
        """Return the same as it was before the worker got the task."""
        counts = dict(worker.task_prefix_count)
        counts[task.prefix.name] = counts.get(task.prefix.name, 1) - 1
        own = (needed for needed in task.dependencies if worker.needs_what.get(needed) == 1)
        network = max(0, worker._network_occ - sum(needed.get_nbytes() for needed in own))
        occupancy = self._scheduler._calc_occupancy(counts, network)
        number, _, processing, fetch = self._state(task, worker)
        return number, round(occupancy * 1e6), processing - 1, fetch


class ChoosingLine(Line):
    """A line from the scheduler to a worker, which notes decisions and messages."""

    choices: Choices
    journal: Journal
    address: str

    def send(self, *messages: dict[str, Any]) -> None:
        super().send(*messages)
        self.journal.passed("out", messages)
        self.choices.sent(self.address, messages)


def _holders(task: Any) -> dict[Any, None]:
    """Return the workers that hold a dependency of the task."""
    return {worker: None for needed in task.dependencies for worker in needed.who_has or ()}


def _load(worker: Any) -> float:
    """Return the figure by which the scheduler compares workers for a task that may be queued."""
    return float(len(worker.processing) / worker.nthreads)


DRAWING = ("cloudpickle", "dask", "distributed", "pytest_schedprof.workloads")
"""Packages that draw the cluster's random names. The caller of `uuid` decides, because dask imports
many of its modules late, when their references to `uuid` could not be replaced any more."""


def replacements_of_chance(
    governor: Callable[[], Conductor | None],
) -> list[tuple[Any, str, Any]]:
    """Return objects, the names of their attributes, and what replaces these.

    Args:
        governor: returns the conductor that governs the calling thread, if any.
    """
    names = _Names(governor)
    return [
        (uuid, "uuid1", names.uuid1),
        (os, "urandom", names.urandom),
        (sizeof_module, "random", EvenSamples),
        # By its task, not by a number that depends on the order of a set.
        (Future, "__dask_tokenize__", lambda future: (type(future).__name__, future.key)),
    ]


_REAL_UUID1 = uuid.uuid1
_REAL_URANDOM = os.urandom


class _Names:
    """Draws the cluster's random names for dask's code in governed threads."""

    def __init__(self, governor: Callable[[], Conductor | None]) -> None:
        self._governor = governor

    def uuid1(self, *args: Any, **keywords: Any) -> uuid.UUID:
        return self._of_place(sys._getframe(1)) or _REAL_UUID1(*args, **keywords)

    def urandom(self, size: int, /) -> bytes:
        """Return random bytes, of which `uuid4` makes the cluster's name.

        This replaces a function that `uuid4` calls: modules may have imported `uuid4` by its name.
        """
        caller = sys._getframe(1)
        place = caller.f_back
        if place is not None and place.f_globals is vars(threads):
            place = place.f_back  # in a process for tests in turns one of theirs stands before it
        if caller.f_globals is not vars(uuid) or place is None:
            return _REAL_URANDOM(size)
        name = self._of_place(place)
        return _REAL_URANDOM(size) if name is None else name.bytes

    def _of_place(self, caller: FrameType) -> uuid.UUID | None:
        """Return the cluster's random name for a line of dask's, if its thread is governed."""
        module = str(caller.f_globals.get("__name__"))
        is_dasks = f"{module}.".startswith(tuple(f"{package}." for package in DRAWING))
        if not is_dasks or ".tests." in module or (conductor := self._governor()) is None:
            return None
        return conductor.make_name(f"{module}:{caller.f_code.co_name}", caller.f_lineno)


class EvenSamples:
    """Replaces `random` in dask's estimate of the size of a large list.

    With random samples the bytecodes of sending the same message would differ between runs.
    """

    @staticmethod
    def sample(population: Sequence[Any], count: int) -> list[Any]:
        """Return items at equal distances."""
        return [population[number * len(population) // count] for number in range(count)]
