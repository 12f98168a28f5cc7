"""Records what a scheduler is asked: a plugin of the scheduler."""

from __future__ import annotations

import functools
import logging
import secrets
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from operator import attrgetter
from typing import Any

import dask.config
from dask.utils import parse_bytes
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.metrics import time
from tornado.ioloop import PeriodicCallback

from pytest_schedprof.record.known import KnownTasks
from pytest_schedprof.record.rows import GraphRows, Numbered, Rows
from pytest_schedprof.record.tasks import NO_ANNOTATIONS, Groups, annotations_of
from pytest_schedprof.record.writer import Writer

logger = logging.getLogger("distributed.schedprof")  # dask shows what is below `distributed`

NAME = "schedprof-record"

FLUSH_S = 0.5
"""A killed scheduler loses what happened since the last block."""

FINISHED, ERRED = "task-finished", "task-erred"
RELEASING, CANCELLING = "client-releases-keys", "cancel-keys"
"""Messages that the recorder listens to."""

RETIRING = "retire-workers"
"""How the scheduler calls the cause if a worker leaves whose results were moved before."""

STEADY = 0.01
"""The bandwidth is noted again when it differs by more than this part."""

PRIORITY = attrgetter("priority")


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

    Keys are replaced by numbers. Prefixes are kept, or replaced by letters. No code, no value and
    no annotation of the users' own is recorded.
    """

    name = NAME

    # The scheduler calls this for each transition of each task. Here it does nothing, and a
    # function of C that takes any arguments does nothing in a tenth of the time.
    transition: Any = "".format

    def __init__(self, scheduler: Any, writer: Writer, *, hashed: bool = False) -> None:
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
        self.clients, self.workers = Numbered(), Numbered()
        self.groups = Groups(hashed=hashed)
        self.bandwidth = float(parse_bytes(dask.config.get("distributed.scheduler.bandwidth")))
        self.flushing = PeriodicCallback(self.flush, FLUSH_S * 1000)
        handlers = scheduler.stream_handlers
        self.real = {op: handlers[op] for op in (FINISHED, ERRED, RELEASING, CANCELLING)}
        self.mine = {
            FINISHED: self._on_finished(handlers[FINISHED]),
            ERRED: self._on_erred(handlers[ERRED]),
            RELEASING: self._on_release(handlers[RELEASING]),
            CANCELLING: self._on_cancel(handlers[CANCELLING]),
        }

    def begin(self) -> None:
        """Record from now on."""
        self._begin_file()
        self.scheduler.stream_handlers.update(self.mine)
        self.scheduler.extensions[NAME] = self
        self.scheduler.add_plugin(self, name=NAME)
        self.flushing.start()

    def _begin_file(self) -> None:
        """Write what each file begins with, so that it can be read without the others."""
        self.begun = time()
        now = datetime.now(timezone.utc).replace(microsecond=0).isoformat()
        head = {
            "kind": "head",
            "distributed": version("distributed"),
            "begun": now,
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
        handlers = self.scheduler.stream_handlers
        for op, mine in self.mine.items():
            if handlers.get(op) is mine:  # else somebody has replaced it, who calls it still
                handlers[op] = self.real[op]
        self.scheduler.plugins.pop(NAME, None)

    @guarded
    def flush(self) -> None:
        """Hand over what was seen since the last time, and begin the next file if it is time."""
        self.writer.check()
        self._write_rows()
        self.known.sweep()
        if self.writer.is_full():
            self.writer.turn()
            self._begin_file()

    @guarded
    def _finish(self) -> None:
        self.writer.check()
        self._write_rows()

    def _write_rows(self) -> None:
        rows, self.rows = self.rows, Rows()
        for block in rows.blocks(self.begun):
            self.writer.write(block)
        bandwidth = float(self.scheduler.bandwidth)
        if abs(bandwidth - self.bandwidth) > STEADY * self.bandwidth:
            self.bandwidth = bandwidth
            self.writer.write({"kind": "network", "bandwidth": bandwidth})

    async def close(self) -> None:
        """End with the scheduler."""
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
        numbers, states = self.known.numbers, scheduler.tasks
        new = [state for key in tasks if id(state := states[key]) not in numbers]
        # Names are numbers in a replay, where dask orders tasks by name that it cannot tell apart.
        new.sort(key=PRIORITY)
        rows = GraphRows(time() - self.begun, self.clients.of(client))
        if self._note_held(rows, new):
            new = [each for each in new if id(each) not in numbers]
        for number, state in zip(self.known.add(new), new, strict=True):
            needed = [numbers[id(each)] for each in state.dependencies if id(each) in numbers]
            annotations = annotations_of(state, scheduler, self.workers)
            rows.add(number, self.groups.of(state), needed, annotations)
        rows.wanted = sorted([numbers[id(states[key])] for key in keys if key in states])
        self.writer.write(rows.block())

    def _note_held(self, rows: GraphRows, new: Sequence[Any]) -> bool:
        """Note results that were there before the file; return whether any has a number now."""
        before = self.known.next
        for state in new:
            if state.who_has:
                self._hold(rows, state)
            for each in state.dependencies:
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
            rows.add(number, self.groups.of(state), (), NO_ANNOTATIONS)
            self.rows.results.append((number, time(), (), state.nbytes, False))

    # Messages of workers and clients. What is called for each task is not in a decorator.

    def _on_finished(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def finished(**message: Any) -> Any:
            try:
                state = self.scheduler.tasks.get(message["key"])
                number = self.known.numbers.get(id(state))
                if number is not None and not self.is_over:
                    startstops, nbytes = message.get("startstops"), message.get("nbytes")
                    self.rows.results.append((number, time(), startstops, nbytes or 0, False))
            except Exception as error:
                self.give_up(error)
            return real(**message)

        return finished

    def _on_erred(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def erred(**message: Any) -> Any:
            self._note_error(message["key"], message.get("startstops"))
            return real(**message)

        return erred

    @guarded
    def _note_error(self, key: Any, startstops: Any) -> None:
        number = self.known.of(self.scheduler.tasks.get(key))
        if number is not None:
            self.rows.results.append((number, time(), startstops, 0, True))

    def _on_release(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def release(**message: Any) -> Any:
            try:
                if not self.is_over:
                    self._note_release(message["client"], message["keys"])
            except Exception as error:
                self.give_up(error)
            return real(**message)

        return release

    def _on_cancel(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def cancel(**message: Any) -> Any:
            self._note_cancel(message["client"], message["keys"])
            return real(**message)

        return cancel

    @guarded
    def _note_cancel(self, client: str, keys: Collection[Any]) -> None:
        self._note_release(client, self._with_dependents(keys))

    def _note_release(self, client: str, keys: Collection[Any]) -> None:
        get, numbers = self.scheduler.tasks.get, self.known.numbers
        ids = [numbers[id(state)] for key in keys if id(state := get(key)) in numbers]
        if ids:
            self.rows.releases.append((time(), self.clients.of(client), ids))

    def _with_dependents(self, keys: Collection[Any]) -> list[Any]:
        """Return tasks that are cancelled with all that need them."""
        found, waiting = dict.fromkeys(keys), list(keys)
        while waiting:
            state = self.scheduler.tasks.get(waiting.pop())
            more = [each.key for each in (state.dependents if state else ())]
            waiting += [key for key in more if key not in found]
            found |= dict.fromkeys(more)
        return list(found)

    # Clients and workers.

    @guarded
    def remove_client(self, scheduler: Any, client: str) -> None:
        """Note that a client wants nothing any more: no task is named."""
        if self.clients.known(client) is not None:
            self.rows.releases.append((time(), self.clients.of(client), []))
            self.clients.forget(client)

    @guarded
    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Note a worker."""
        self._note_worker(worker, has_joined=True)

    @guarded
    def remove_worker(
        self, scheduler: Any, worker: str, *, stimulus_id: str = "", **more: Any
    ) -> None:
        """Note that a worker left; the scheduler knows it no more."""
        self._note_worker(worker, has_joined=False, is_retired=stimulus_id.startswith(RETIRING))
        self.workers.forget(worker)

    def _note_worker(self, address: str, *, has_joined: bool, is_retired: bool = False) -> None:
        state = self.scheduler.workers.get(address)
        threads, memory = (state.nthreads, state.memory_limit or 0) if state else (0, 0)
        worker, now = self.workers.of(address), time() - self.begun
        self.rows.workers.append((now, worker, has_joined, threads, memory, is_retired))
