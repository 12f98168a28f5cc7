"""Records what a scheduler is asked: a plugin of the scheduler."""

from __future__ import annotations

import functools
import hashlib
import logging
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import compress
from operator import attrgetter, not_
from typing import Any

import dask.config
from dask.utils import key_split, parse_bytes
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.metrics import time
from tornado.ioloop import PeriodicCallback

from pytest_schedprof.agent.patches import wrap
from pytest_schedprof.model.workload import ACTOR, Group
from pytest_schedprof.replay.hearing import (
    MOST_GROUPS,
    GraphRows,
    Hearing,
    Numbered,
    Presence,
    Rows,
)
from pytest_schedprof.replay.writing import Writer

MORE = 1000


class KnownTasks:
    """Numbers tasks in the order in which they are first seen.

    A task that was forgotten and comes again under its old key is a new one, so numbers belong to
    the scheduler's states of tasks. To notice that a state is forgotten would cost a call for each
    transition. Instead this holds the states, and checks some of them now and then.
    """

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        """By `id`, which is faster than the hash of a state."""
        self._fresh: list[Any] = []
        """The numbered states; while they are held, no other state can have the `id` of one."""
        self._old: list[Any] = []
        """Numbered states to check before these."""
        self.next = self._swept = 0

    def add(self, states: Sequence[Any]) -> range:
        added = range(self.next, self.next + len(states))
        self.next = added.stop
        self.numbers.update(zip(map(id, states), added, strict=True))
        self._fresh += states
        return added

    def sweep(self, tasks: Mapping[Any, Any]) -> None:
        """Forget tasks that the scheduler forgot; check two for every task that came meanwhile."""
        most = MORE + 2 * (self.next - self._swept)
        self._swept = self.next
        if not self._old:
            self._old, self._fresh = self._fresh, []
        states, state_of = self._old[-most:], tasks.get
        del self._old[-most:]
        stay = [state_of(state.key) is state for state in states]
        self._fresh.extend(compress(states, stay))
        for state in compress(states, map(not_, stay)):
            del self.numbers[id(state)]

    def forget(self) -> None:
        for known in (self.numbers, self._fresh, self._old):
            known.clear()


NO_ANNOTATIONS: dict[str, Any] = {}

LETTERS = 10

SECRET = 16
"""Bytes of a secret that nobody can guess."""


class Names:
    """Makes the names in the file of those that users gave: the same names, or letters.

    The letters are the same in all files of a recording. The secret is in none of them, and without
    it nobody can find out which name has which letters.
    """

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        """Empty if names are kept."""

    def prefix(self, name: str) -> str:
        """Return a prefix, or letters, also if dask would read another prefix from a key."""
        is_kept = not self.secret and key_split(Group(name).key(1)) == name
        return name if is_kept else self._letters(name)

    def resource(self, name: str) -> str:
        return self._letters(name) if self.secret else name

    def _letters(self, name: str) -> str:
        text = name.encode("utf-8", "replace")
        digest = hashlib.blake2b(text, digest_size=LETTERS, key=self.secret).digest()
        return "".join(chr(ord("a") + byte % 26) for byte in digest)


class Groups:
    """Groups of the file by the scheduler's names."""

    def __init__(self, users: Names) -> None:
        self.users = users
        self.numbers = Numbered(MOST_GROUPS)
        self.names: dict[str, tuple[str, int | None]] = {}

    def column(
        self, states: Sequence[Any], number: Callable[[tuple[str, int | None]], int]
    ) -> list[int]:
        """Return the numbers that a function has for the groups of tasks."""
        column, last, its = [], None, 0
        for state in states:
            if (group := state.group) is not last:
                last, its = group, number(self.of(group))
            column.append(its)
        return column

    def of(self, group: Any) -> tuple[str, int | None]:
        """Return the prefix and the number of a group of tasks."""
        name = group.name
        if (known := self.names.get(name)) is not None:
            return known
        prefix = self.users.prefix(group.prefix.name)
        number = None if name == group.prefix.name else self.numbers.of(name)
        if len(self.names) > MOST_GROUPS:
            self.names.clear()
        self.names[name] = prefix, number
        return prefix, number


def held_by(states: Sequence[Any]) -> list[Any]:
    """Return those of the tasks and their dependencies whose results workers hold."""
    needed = [needed for state in states for needed in state.dependencies if needed.who_has]
    held = [state for state in states if state.who_has]
    return [*{id(state): state for state in [*held, *needed]}.values()]


def needed_by(
    states: Sequence[Any], ids: Sequence[int], numbers: Mapping[int, int]
) -> tuple[list[int], list[int]]:
    """Return how many dependencies tasks have, and the distances to the numbers of these."""
    degrees, distances = [], []
    for number, state in zip(ids, states, strict=True):
        known = state.dependencies
        if known:
            known = [number - numbers[id(needed)] for needed in known if id(needed) in numbers]
            distances += known
        degrees.append(len(known))
    return degrees, distances


def are_plain(states: Sequence[Any]) -> bool:
    """Whether no client wants anything of these tasks but their results."""
    return not any(
        [
            (state.priority and state.priority[0])
            or state.retries
            or state.resource_restrictions
            or state.worker_restrictions
            or state.host_restrictions
            or state.actor
            for state in states
        ]
    )


def plain(number: Any) -> float:
    """Return a number that MessagePack knows; a user may have given one of numpy's."""
    return number if isinstance(number, (int, float)) else float(number)


def annotations_of(state: Any, scheduler: Any, workers: Numbered, names: Names) -> dict[str, Any]:
    """Return what the client demands for a task; workers are numbers, not addresses."""
    priority, restricted = state.priority, state.worker_restrictions
    annotations: dict[str, Any] = {}
    if priority and priority[0]:
        annotations["priority"] = plain(-priority[0])
    if state.retries:
        annotations["retries"] = state.retries
    if state.resource_restrictions:
        annotations["resources"] = {
            names.resource(name): plain(amount)
            for name, amount in state.resource_restrictions.items()
        }
    hosts = scheduler.host_info
    allowed = {*(restricted or ())}
    for host in state.host_restrictions or ():
        allowed |= {*hosts[host]["addresses"]} if host in hosts else set()
    if allowed:
        annotations["workers"] = sorted(workers.of(worker) for worker in allowed)
    if state.loose_restrictions:
        annotations["allow_other_workers"] = True
    if state.actor:
        annotations[ACTOR] = True
    return annotations


logger = logging.getLogger("distributed.schedprof")  # dask shows what is below `distributed`

NAME = "schedprof-record"

FLUSH_S = 0.5
"""Interval of writing; a killed scheduler loses what happened in it."""

INTAKE = "_create_taskstate_from_graph"
"""The part of `update_graph` that calls plugins; before it `update_graph` waits for threads."""

RETIRING = "retire-workers"
"""Prefix of the scheduler's stimulus when a worker leaves after its results were moved."""

PRIORITY = attrgetter("priority")

STEADY = 0.01
"""The bandwidth is noted again when it differs by more than this part."""


def guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let no error reach the scheduler: the recorder removes itself, and logs that once."""

    @functools.wraps(method)
    def call(self: WorkloadRecorder, *args: Any, **keywords: Any) -> None:
        try:
            if not self.is_over:
                method(self, *args, **keywords)
        except Exception as error:
            self.give_up(error)

    return call


class WorkloadRecorder(SchedulerPlugin):
    """Notes graphs, ends of tasks, releases, and workers that come and go.

    It replaces keys by numbers, and names of prefixes and resources by letters if they are to be
    anonymous. It records no code, no values and no annotations of the users' own.
    """

    name = NAME

    # Transitions are no news. A function of C that takes any arguments does nothing in a tenth of
    # the time of one of Python.
    transition: Any = "".format

    def __init__(self, scheduler: Any, writer: Writer, *, anonymous: bool = False) -> None:
        self.scheduler, self.writer = scheduler, writer
        self.is_over = False
        self.begun = time()
        self.rows = Rows()
        self.known = KnownTasks()
        self.workers = Numbered()
        self.staying: set[str] = set()
        """Workers that have joined according to the file."""
        self.names = Names(secrets.token_bytes(SECRET) if anonymous else b"")
        self.groups = Groups(self.names)
        self.bandwidth = float(parse_bytes(dask.config.get("distributed.scheduler.bandwidth")))
        self.flushing = PeriodicCallback(self.flush, FLUSH_S * 1000)
        self.undo = ExitStack()
        self.presence = Presence(scheduler.plugins, NAME, self)

    def begin(self) -> None:
        try:
            self._write_begin()
            hearing = Hearing(self.scheduler, self.known.numbers, self.rows, self.give_up)
            hearing.begin(self.undo)
            self._wait_for_rare_things()
        except BaseException:
            self._leave()
            self.writer.abandon()
            raise
        self.scheduler.extensions[NAME] = self
        self.flushing.start()

    def _wait_for_rare_things(self) -> None:
        """Be a plugin while graphs are taken in, and while workers and clients leave."""
        scheduler, undo, during = self.scheduler, self.undo, self.presence.during
        messages = scheduler.stream_handlers
        if hasattr(scheduler, INTAKE):
            wrap(scheduler, INTAKE, during, undo)
        else:
            wrap(messages, "update-graph", during, undo)
        wrap(scheduler, "remove_worker", during, undo)
        wrap(scheduler.handlers, "unregister", during, undo)
        wrap(scheduler, "remove_client", during, undo)
        wrap(messages, "close-client", during, undo)
        wrap(scheduler, "handle_worker", self._on_worker, undo)

    def _write_begin(self) -> None:
        """Write the head of the file, and what was there before."""
        now = datetime.now(UTC).replace(microsecond=0).isoformat()
        head = {
            "kind": "head",
            "distributed": version("distributed"),
            "begun": "" if self.names.secret else now,
        }
        self.writer.write(head)
        for address in list(self.scheduler.workers):
            self._note_worker(address, has_joined=True)
        self._write_rows()

    def end(self) -> None:
        """Record no more, and close the file."""
        self._finish()
        if not self.is_over:
            self._leave()
            self.writer.close()

    def give_up(self, error: Exception) -> None:
        """Leave the scheduler alone after an error."""
        if not self.is_over:
            logger.warning(
                "schedprof: the recording of the workload has ended early: %s: %s; the scheduler "
                "runs on, and the file is whole up to here",
                type(error).__name__,
                error,
            )
            self._leave()
            self.writer.abandon()

    def _leave(self) -> None:
        self.is_over = True
        self.flushing.stop()
        self.undo.close()
        self.presence.end()
        self.known.forget()

    @guarded
    def flush(self) -> None:
        """Write what happened since the last time."""
        self.writer.check()
        self._write_rows()
        self.known.sweep(self.scheduler.tasks)

    @guarded
    def _finish(self) -> None:
        self.writer.check()
        self._write_rows()

    def _write_rows(self) -> None:
        for block in self.rows.take(self.begun):
            self.writer.write(block)
        bandwidth = float(self.scheduler.bandwidth)
        if abs(bandwidth - self.bandwidth) > STEADY * self.bandwidth:
            self.bandwidth = bandwidth
            self.writer.write({"kind": "network", "bandwidth": bandwidth})

    def teardown(self) -> None:
        """End with the scheduler, which calls this for each extension."""
        self.end()

    # Graphs.

    @guarded
    def update_graph(
        self,
        scheduler: Any,
        *,
        client: str,
        keys: Collection[Any],
        tasks: Collection[Any],
        **more: Any,
    ) -> None:
        """Note the new tasks, and the results that the client wants."""
        self.rows.join_releases()
        numbers, states = self.known.numbers, scheduler.tasks
        new = [state for state in map(states.__getitem__, tasks) if id(state) not in numbers]
        # Names are numbers in a replay, where dask orders tasks by name that it cannot tell apart.
        new.sort(key=PRIORITY)
        rows = GraphRows(time() - self.begun, self.rows.clients.of(client))
        if self._note_held(rows, new):
            new = [state for state in new if id(state) not in numbers]
        self._add_tasks(rows, new)
        rows.wanted = sorted([numbers[id(states[key])] for key in keys if key in states])
        self.writer.write(rows.block())
        self.presence.end_early()  # only the transitions of its tasks follow

    def _add_tasks(self, rows: GraphRows, new: Sequence[Any]) -> None:
        ids = self.known.add(new)
        if are_plain(new):
            annotation = [rows.annotations(NO_ANNOTATIONS)] * len(new) if new else []
        else:
            annotation = [
                rows.annotations(annotations_of(state, self.scheduler, self.workers, self.names))
                for state in new
            ]
        needed = needed_by(new, ids, self.known.numbers)
        rows.add(ids, self.groups.column(new, rows.group), annotation, needed)

    def _note_held(self, rows: GraphRows, new: Sequence[Any]) -> bool:
        """Note results that are older than the file; return whether any of them is a new task."""
        before = self.known.next
        for state in held_by(new):
            if id(state) not in self.known.numbers:
                (number,) = self.known.add([state])
                group = rows.group(self.groups.of(state.group))
                rows.add([number], [group], [rows.annotations(NO_ANNOTATIONS)])
                self.rows.results.append((number, time(), (), state.nbytes, False))
        return self.known.next > before

    # Clients and workers.

    @guarded
    def remove_client(self, scheduler: Any, client: str) -> None:
        self.rows.release_all(time(), client)

    def _on_worker(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the method that handles a worker's messages from its first to its last one.

        The wrapper is not a coroutine, because the recorder would be a plugin while it runs.
        """

        @functools.wraps(real)
        def handle_worker(*args: Any, **keywords: Any) -> Any:
            self._note_joined(*args, **keywords)
            return real(*args, **keywords)

        return handle_worker

    @guarded
    def _note_joined(self, comm: Any, worker: str) -> None:
        if worker not in self.staying:  # otherwise the file was begun while it joined
            self._note_worker(worker, has_joined=True)

    @guarded
    def remove_worker(
        self, scheduler: Any, worker: str, *, stimulus_id: str = "", **more: Any
    ) -> None:
        self._note_worker(worker, has_joined=False, is_retired=stimulus_id.startswith(RETIRING))
        self.workers.forget(worker)
        self.staying.discard(worker)

    def _note_worker(self, address: str, *, has_joined: bool, is_retired: bool = False) -> None:
        state = self.scheduler.workers.get(address)
        threads, memory = (state.nthreads, state.memory_limit or 0) if state else (0, 0)
        worker, now = self.workers.of(address), time() - self.begun
        self.staying.add(address)
        self.rows.workers.append((now, worker, has_joined, threads, memory, is_retired))
