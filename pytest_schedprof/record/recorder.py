"""Records what a scheduler is asked: a plugin of the scheduler."""

from __future__ import annotations

import functools
import logging
import secrets
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from operator import attrgetter
from typing import Any

import dask.config
from dask.utils import parse_bytes
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.metrics import time
from tornado.ioloop import PeriodicCallback

from pytest_schedprof.record.hearing import Hearing
from pytest_schedprof.record.known import KnownTasks
from pytest_schedprof.record.places import Places, Presence
from pytest_schedprof.record.rows import GraphRows, Numbered, Rows
from pytest_schedprof.record.tasks import (
    NO_ANNOTATIONS,
    SECRET,
    Groups,
    Names,
    annotations_of,
    are_plain,
    held_by,
    needed_by,
)
from pytest_schedprof.record.writer import Writer

logger = logging.getLogger("distributed.schedprof")  # dask shows what is below `distributed`

NAME = "schedprof-record"

FLUSH_S = 0.5
"""A killed scheduler loses what happened since the last block."""

INTAKE = "_create_taskstate_from_graph"
"""The part of `update_graph` that tells plugins of a graph; what it waits for comes before."""

RETIRING = "retire-workers"
"""How the scheduler calls the cause if a worker leaves whose results were moved before."""

PRIORITY = attrgetter("priority")

STEADY = 0.01
"""The bandwidth is noted again when it differs by more than this part."""


def guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let no error reach the scheduler: the recorder takes itself out and says so once."""

    @functools.wraps(method)
    def call(self: WorkloadRecorder, *args: Any, **keywords: Any) -> None:
        try:
            if not self.is_over:
                method(self, *args, **keywords)
        except Exception as error:
            self.give_up(error)

    return call


class WorkloadRecorder(SchedulerPlugin):
    """Notes graphs as they arrive, ends of tasks, releases, and workers that come and go.

    Keys are replaced by numbers. Names of prefixes and resources are kept, or replaced by letters.
    No code, no value and no annotation of the users' own is recorded.
    """

    name = NAME

    # What is not waited for does nothing. A function of C that takes any arguments does nothing in
    # a tenth of the time.
    transition: Any = "".format

    def __init__(self, scheduler: Any, writer: Writer, *, anonymous: bool = False) -> None:
        self.scheduler, self.writer = scheduler, writer
        self.is_over = False
        self.begun = self.first_begun = time()
        """When this file was begun, and when the first one was."""
        self.recording = secrets.token_hex(16)
        self.rows = Rows()
        self.known = KnownTasks()
        self.oldest = 0
        """Number of the first task that is in this file."""
        self.noted: set[int] = set()
        """Older tasks that are in this file too."""
        self.workers = Numbered()
        self.staying: set[str] = set()
        """Workers that have joined, as the file says."""
        self.names = Names(secrets.token_bytes(SECRET) if anonymous else b"")
        self.groups = Groups(self.names)
        self.bandwidth = float(parse_bytes(dask.config.get("distributed.scheduler.bandwidth")))
        self.flushing = PeriodicCallback(self.flush, FLUSH_S * 1000)
        self.places = Places()
        self.presence = Presence(scheduler.plugins, NAME, self)

    def begin(self) -> None:
        """Record from now on."""
        try:
            self._begin_file()
            hearing = Hearing(self.scheduler, self.known.numbers, self.rows, self.give_up)
            hearing.begin(self.places)
            self._wait_for_rare_things()
        except BaseException:
            self._leave()
            self.writer.abandon()
            raise
        self.scheduler.extensions[NAME] = self
        self.flushing.start()

    def _wait_for_rare_things(self) -> None:
        """Be a plugin while graphs are taken in, and while workers and clients leave."""
        scheduler, places, during = self.scheduler, self.places, self.presence.during
        messages = scheduler.stream_handlers
        if hasattr(scheduler, INTAKE):
            places.method(scheduler, INTAKE, during)
        else:
            places.handler(messages, "update-graph", during)
        places.method(scheduler, "remove_worker", during)
        places.handler(scheduler.handlers, "unregister", during)
        places.method(scheduler, "remove_client", during)
        places.handler(messages, "close-client", during)
        places.method(scheduler, "handle_worker", self._on_worker)

    def _begin_file(self) -> None:
        """Write what each file begins with, so that it can be read without the others."""
        self.begun = time()
        now = datetime.now(UTC).replace(microsecond=0).isoformat()
        head = {
            "kind": "head",
            "distributed": version("distributed"),
            "begun": "" if self.names.secret else now,
            "name": self.recording,
            "since": self.begun - self.first_begun,
        }
        self.writer.write(head)
        self.oldest, self.noted = self.known.next, set()
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
        self.places.put_back()
        self.presence.end()
        self.known.forget()

    @guarded
    def flush(self) -> None:
        """Hand over what was seen since the last time, and begin the next file if it is time."""
        self.writer.check()
        self._write_rows()
        self.known.sweep(self.scheduler.tasks)
        if self.writer.is_full():
            self.writer.turn()
            self._begin_file()

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
        """Note the tasks that are new, and what the client wants."""
        self.rows.join_releases()
        numbers, states = self.known.numbers, scheduler.tasks
        new = [state for state in map(states.__getitem__, tasks) if id(state) not in numbers]
        # Names are numbers in a replay, where dask orders tasks by name that it cannot tell apart.
        new.sort(key=PRIORITY)
        rows = GraphRows(time() - self.begun, self.rows.clients.of(client))
        if self._note_held(rows, new):
            new = [each for each in new if id(each) not in numbers]
        self._add_tasks(rows, new)
        rows.wanted = sorted([numbers[id(states[key])] for key in keys if key in states])
        self.writer.write(rows.block())
        self.presence.told()  # the transitions of its tasks follow

    def _add_tasks(self, rows: GraphRows, new: Sequence[Any]) -> None:
        ids = self.known.add(new)
        if are_plain(new):
            annotation = [rows.annotations(NO_ANNOTATIONS)] * len(new) if new else []
        else:
            found = (annotations_of(each, self.scheduler, self.workers, self.names) for each in new)
            annotation = [*map(rows.annotations, found)]
        needed = needed_by(new, ids, self.known.numbers)
        rows.add(ids, self.groups.column(new, rows.group), annotation, needed)

    def _note_held(self, rows: GraphRows, new: Sequence[Any]) -> bool:
        """Note results that were there before the file; return whether any has a number now."""
        before = self.known.next
        for each in held_by(new):
            self._hold(rows, each)
        return self.known.next > before

    def _hold(self, rows: GraphRows, state: Any) -> None:
        """Note a task as one that has ended, if it has, and is not in the file."""
        number = self.known.of(state)
        if not state.who_has or (number is not None and number >= self.oldest):
            return
        if number is None:
            (number,) = self.known.add([state])
        if number not in self.noted:
            self.noted.add(number)
            group = rows.group(self.groups.of(state.group))
            rows.add([number], [group], [rows.annotations(NO_ANNOTATIONS)])
            self.rows.results.append((number, time(), (), state.nbytes, False))

    # Clients and workers.

    @guarded
    def remove_client(self, scheduler: Any, client: str) -> None:
        """Note that a client wants nothing any more: no task is named."""
        self.rows.release_all(time(), client)

    def _on_worker(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method that is called when a worker has joined, and lasts as long as it stays.

        So it is no coroutine, during which the recorder would have to be a plugin.
        """

        @functools.wraps(real)
        def handle_worker(*args: Any, **keywords: Any) -> Any:
            self._note_joined(*args, **keywords)
            return real(*args, **keywords)

        return handle_worker

    @guarded
    def _note_joined(self, comm: Any, worker: str) -> None:
        if worker not in self.staying:  # else the file was begun while it joined
            self._note_worker(worker, has_joined=True)

    @guarded
    def remove_worker(
        self, scheduler: Any, worker: str, *, stimulus_id: str = "", **more: Any
    ) -> None:
        """Note that a worker left; the scheduler knows it no more."""
        self._note_worker(worker, has_joined=False, is_retired=stimulus_id.startswith(RETIRING))
        self.workers.forget(worker)
        self.staying.discard(worker)

    def _note_worker(self, address: str, *, has_joined: bool, is_retired: bool = False) -> None:
        state = self.scheduler.workers.get(address)
        threads, memory = (state.nthreads, state.memory_limit or 0) if state else (0, 0)
        worker, now = self.workers.of(address), time() - self.begun
        self.staying.add(address)
        self.rows.workers.append((now, worker, has_joined, threads, memory, is_retired))
