"""The decisions of a window: which worker gets which task, and what the scheduler compared for it.

A decision is noted when it is made, not when the worker hears of it: the occupancy of a worker is
another one a moment later. Reading it calls functions of the scheduler that `counts` counts, so the
functions here that do so are in its `NOT_COUNTED`.
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

from pytest_schedprof.virtual.conductor import Conductor
from pytest_schedprof.virtual.journal import Journal, Names, Table
from pytest_schedprof.virtual.lines import Line
from pytest_schedprof.virtual.loop import VirtualLoop

MOST = 64
"""Workers that are looked at for one decision. If there are more to choose from, only their number
is kept."""

State: TypeAlias = tuple[int, int, int, int]
"""Number of a worker, its occupancy in microseconds, its tasks, and the bytes it would fetch."""

NOBODY: State = (-1, 0, 0, 0)

COMPUTE, STEAL, STOLEN = range(3)
"""A task is sent to a worker; a worker is asked to give it back; another one gets it."""

QUEUE, SIBLINGS, BY_DATA, FREE, BY_THEFT = range(5)
"""How a worker was chosen: the idle one with the fewest tasks for a root-ish task; without a queue
the one that has its siblings; the one that holds its dependencies; an idle one; the thief."""


class Choices:
    """Keeps the decisions while a window is open; does nothing outside of one."""

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
                if message["op"] == "steal-request":
                    self._loop.call_soon(self.complete, self._window)

    def complete(self, window: _Decided) -> None:
        """Add to each theft who steals, which is known when the request has been sent."""
        window.complete()


class ChoosingLine(Line):
    """A line from the scheduler to a worker, on which decisions and messages are noted."""

    choices: Choices
    journal: Journal
    address: str

    def send(self, *messages: dict[str, Any]) -> None:
        """Send messages with the next batch."""
        super().send(*messages)
        self.journal.passed("out", messages)
        self.choices.sent(self.address, messages)


class _Decided:
    """The decisions of one window."""

    def __init__(self, scheduler: Any, keys: Names, workers: Names, begun: float) -> None:
        self.table = Table(
            "at", "kind", "key", "worker", "occupancy", "processing", "fetch", "rule", "others",
            "other", "other_occupancy", "other_processing", "other_fetch",
        )  # fmt: skip
        self._scheduler = scheduler
        self._keys, self._workers = keys, workers
        self._begun = begun
        self._to_be_sent: set[Any] = set()
        """Keys of tasks that a worker was chosen for, and that are sent to it by and by."""
        self._thefts: list[tuple[int, Any]] = []
        """Rows of thefts that lack the thief, and their tasks."""

    def chosen(self, now: float, task: Any) -> None:
        """Note the worker that was chosen for a task, which is among its tasks already."""
        self._to_be_sent.add(task.key)
        worker = task.processing_on
        others = self._others(task, worker)
        self._add(now, COMPUTE, task, self._state_before(task, worker), *others)

    def sent(self, now: float, address: str, message: dict[str, Any]) -> None:
        """Note a theft, or a task that is sent because it was stolen."""
        task = self._scheduler.tasks.get(message["key"])
        worker = self._scheduler.workers.get(address)
        if task is None or worker is None:
            return
        if message["op"] == "steal-request":
            self._thefts.append((len(self.table.rows), task))
            self._add(now, STEAL, task, self._state(task, worker), BY_THEFT, 1)
        elif task.key in self._to_be_sent:
            self._to_be_sent.remove(task.key)
        else:
            self._add(now, STOLEN, task, self._state_before(task, worker), BY_THEFT, 0)

    def complete(self) -> None:
        """Add to each theft who steals."""
        stealing = self._scheduler.extensions.get("stealing")
        for row, task in self._thefts:
            info = stealing.in_flight.get(task) if stealing else None
            if info is not None:
                self.table.rows[row][-4:] = self._state(task, info["thief"])
        self._thefts.clear()

    def _add(
        self, now: float, kind: int, task: Any, state: State, rule: int, others: int,
        best: State = NOBODY,
    ) -> None:  # fmt: skip
        at = round((now - self._begun) * 1e6)
        row = [at, kind, self._keys[task.key], *state, rule, others, *best]
        self.table.rows.append(row)

    def _others(self, task: Any, chosen: Any) -> tuple[int, int, State]:
        """Return the rule of the choice, the number of other workers, and the best of them."""
        scheduler = self._scheduler
        rule = self._rule(task)
        found = _holders(task) if rule == BY_DATA else scheduler.idle.values()
        if len(found) > MOST:
            return rule, len(found) - 1, NOBODY
        pool = [each for each in found if each is not chosen and each in scheduler.running]
        if not pool:
            return rule, 0, NOBODY
        objective = _load if rule == QUEUE else partial(scheduler.worker_objective, task)
        return rule, len(pool), self._state(task, min(pool, key=objective))

    def _rule(self, task: Any) -> int:
        """Return by which of its rules the scheduler chooses a worker for the task."""
        if self._scheduler.is_rootish(task):
            return QUEUE if isfinite(self._scheduler.WORKER_SATURATION) else SIBLINGS
        return BY_DATA if task.dependencies else FREE

    def _state(self, task: Any, worker: Any) -> State:
        """Return the worker, and what the scheduler sees of it with regard to the task."""
        occupancy = round(worker.occupancy * 1e6)
        return (
            self._workers[worker.address],
            occupancy,
            len(worker.processing),
            _fetch(task, worker),
        )

    def _state_before(self, task: Any, worker: Any) -> State:
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


DRAWING = ("cloudpickle", "dask", "distributed", "pytest_schedprof.workloads")
"""Packages whose random names are the cluster's. They are told by who calls, because dask imports
many of its modules late, when their references to `uuid` could not be replaced any more."""

Replacement = tuple[Any, str, Any]
"""An object, the name of an attribute, and what it is replaced by."""


def replacements_of_chance(governor: Callable[[], Conductor | None]) -> list[Replacement]:
    """Return what is replaced.

    Args:
        governor: returns the conductor that governs the calling thread, if any.
    """
    names = _Names(governor)
    return [
        (uuid, "uuid1", names.uuid1),
        (os, "urandom", names.urandom),
        (sizeof_module, "random", EvenSamples),
        (Future, "__dask_tokenize__", _tokenize_future),
    ]


_REAL_UUID1 = uuid.uuid1
_REAL_URANDOM = os.urandom


class _Names:
    """Random names, which are the cluster's where dask draws them in a governed thread."""

    def __init__(self, governor: Callable[[], Conductor | None]) -> None:
        self._governor = governor

    def uuid1(self, *args: Any, **keywords: Any) -> uuid.UUID:
        """Make a name."""
        return self._of_place(sys._getframe(1)) or _REAL_UUID1(*args, **keywords)

    def urandom(self, size: int, /) -> bytes:
        """Return random bytes; what `uuid4` makes of them is the cluster's name.

        Replaced is what `uuid4` calls, because modules may have imported `uuid4` by its name.
        """
        caller = sys._getframe(1)
        if caller.f_globals is not vars(uuid) or caller.f_back is None:
            return _REAL_URANDOM(size)
        name = self._of_place(caller.f_back)
        return _REAL_URANDOM(size) if name is None else name.bytes

    def _of_place(self, caller: FrameType) -> uuid.UUID | None:
        """Return the cluster's random name for a line of dask's, if its thread is governed."""
        module = str(caller.f_globals.get("__name__"))
        if not _draws(module) or (conductor := self._governor()) is None:
            return None
        return conductor.make_name(f"{module}:{caller.f_code.co_name}", caller.f_lineno)


def _draws(module: str) -> bool:
    """Whether random names of a module are the cluster's; those of dask's own tests are not."""
    return f"{module}.".startswith(tuple(f"{each}." for each in DRAWING)) and (
        ".tests." not in module
    )


def _tokenize_future(self: Any) -> tuple[str, Any]:
    """Name a future by its task, and not by a number that depends on the order of a set."""
    return type(self).__name__, self.key


class EvenSamples:
    """Stands for `random` in dask's estimate of the size of a large list.

    With random samples, sending the same message would take other bytecodes in each run.
    """

    @staticmethod
    def sample(population: Sequence[Any], count: int) -> list[Any]:
        """Return items at equal distances."""
        return [population[number * len(population) // count] for number in range(count)]
