"""Records what a scheduler is asked: a plugin of the scheduler."""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Callable, Collection
from datetime import datetime, timezone
from importlib.metadata import version
from typing import Any

from dask.utils import key_split
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.metrics import time
from tornado.ioloop import PeriodicCallback

from pytest_schedprof.model.workload import Group
from pytest_schedprof.record.rows import MOST_GROUPS, GraphRows, Numbered, Rows
from pytest_schedprof.record.writer import Writer

logger = logging.getLogger("distributed.schedprof")  # dask shows what is below `distributed`

NAME = "schedprof-record"

FLUSH_S = 0.5
"""A killed scheduler loses what happened since the last block."""

RELEASING = "client-releases-keys"

NO_ANNOTATIONS: dict[str, Any] = {}

LETTERS = 10

ENDS = ("memory", "erred")
"""States of tasks that a worker has done with."""


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

    def __init__(self, scheduler: Any, writer: Writer, *, hashed: bool = False) -> None:
        self.scheduler, self.writer, self.hashed = scheduler, writer, hashed
        self.is_over = False
        self.begun = time()
        self.rows = Rows()
        self.ids, self.clients, self.workers = Numbered(), Numbered(), Numbered()
        self.groups = Numbered(MOST_GROUPS)
        self.names: dict[str, tuple[str, int | None]] = {}
        """Groups of the file by the scheduler's names."""
        self.flushing = PeriodicCallback(self.flush, FLUSH_S * 1000)
        self.real_release = scheduler.stream_handlers[RELEASING]
        self.my_release = self._releasing(self.real_release)

    def begin(self) -> None:
        """Record from now on."""
        now = datetime.now(timezone.utc).replace(microsecond=0).isoformat()
        self.writer.write({"kind": "head", "distributed": version("distributed"), "begun": now})
        for address in list(self.scheduler.workers):
            self.add_worker(self.scheduler, address)
        self.scheduler.stream_handlers[RELEASING] = self.my_release
        self.scheduler.extensions[NAME] = self
        self.scheduler.add_plugin(self, name=NAME)
        self.flushing.start()

    def end(self) -> None:
        """Record no more, and close the file."""
        self.flush()
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
        if handlers.get(RELEASING) is self.my_release:
            handlers[RELEASING] = self.real_release
        self.scheduler.plugins.pop(NAME, None)

    @guarded
    def flush(self) -> None:
        """Hand over what was seen since the last time."""
        self.writer.check()
        rows, self.rows = self.rows, Rows()
        for block in rows.blocks():
            self.writer.write(block)

    async def close(self) -> None:
        """End with the scheduler."""
        self.end()

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
        """Note the tasks that are new."""
        known, states = self.ids.known, scheduler.tasks
        new = [key for key in tasks if known(key) is None]
        rows = GraphRows(time() - self.begun, self.clients.of(client))
        for key in new:
            self._note_held(rows, states[key])
        for key in new:
            self._note_task(rows, states[key])
        rows.wanted = [self.ids.of(key) for key in keys if key in states]
        self.writer.write(rows.block())

    def _note_held(self, rows: GraphRows, state: Any) -> None:
        """Number a task after those of its dependencies that were there before the recording."""
        for each in state.dependencies:
            if self.ids.known(each.key) is None and each.state == "memory":
                rows.add(self.ids.of(each.key), self._group(each), (), NO_ANNOTATIONS)
                self._note_end(each.key, 0.0, each.nbytes)
        self.ids.of(state.key)

    def _note_task(self, rows: GraphRows, state: Any) -> None:
        number = self.ids.known
        needed = [found for each in state.dependencies if (found := number(each.key)) is not None]
        rows.add(self.ids.of(state.key), self._group(state), needed, self._annotations(state))

    def _annotations(self, state: Any) -> dict[str, Any]:
        """Return what the client wants of a task, without addresses."""
        found: dict[str, Any] = {}
        if state.priority and state.priority[0]:
            found["priority"] = -state.priority[0]
        if state.retries:
            found["retries"] = state.retries
        if state.resource_restrictions:
            found["resources"] = dict(state.resource_restrictions)
        if state.worker_restrictions:
            found["workers"] = sorted(self.workers.of(each) for each in state.worker_restrictions)
        if state.loose_restrictions:
            found["allow_other_workers"] = True
        return found or NO_ANNOTATIONS

    def _group(self, state: Any) -> tuple[str, int | None]:
        """Return the prefix and the number of a task's group."""
        name = state.group.name
        if name not in self.names:
            prefix = self._prefix(state.group.prefix.name)
            number = None if name == state.group.prefix.name else self.groups.of(name)
            if len(self.names) > MOST_GROUPS:
                self.names.clear()
            self.names[name] = prefix, number
        return self.names[name]

    def _prefix(self, name: str) -> str:
        """Return the prefix, or letters in its place if dask would read another one from a key."""
        if not self.hashed and key_split(Group(name).key(1)) == name:
            return name
        digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=LETTERS).digest()
        return "".join(chr(ord("a") + byte % 26) for byte in digest)

    def transition(self, key: Any, start: str, finish: str, *args: Any, **details: Any) -> None:
        """Note how tasks end; what is called for each transition is not even guarded."""
        if start == "processing" and finish in ENDS:
            self._note_result(key, finish, details)
        elif finish == "forgotten":
            self.ids.forget(key)

    @guarded
    def _note_result(self, key: Any, finish: str, details: dict[str, Any]) -> None:
        seconds = 0.0
        for each in details.get("startstops") or ():
            if each["action"] == "compute":
                seconds += each["stop"] - each["start"]
        self._note_end(key, seconds, details.get("nbytes") or 0, is_error=finish == "erred")

    def _note_end(self, key: Any, seconds: float, nbytes: int, *, is_error: bool = False) -> None:
        number, rows = self.ids.known(key), self.rows
        if number is not None:
            rows.ids.append(number)
            rows.times.append(time() - self.begun)
            rows.durations.append(seconds)
            rows.nbytes.append(nbytes)
            rows.errors.append(is_error)

    def _releasing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def release(*args: Any, **keywords: Any) -> Any:
            self._note_release(keywords.get("client"), keywords.get("keys") or ())
            return real(*args, **keywords)

        return release

    @guarded
    def _note_release(self, client: str | None, keys: Collection[Any]) -> None:
        ids = [number for key in keys if (number := self.ids.known(key)) is not None]
        if ids:
            self.rows.release(time() - self.begun, self.clients.of(client), ids)

    @guarded
    def remove_client(self, scheduler: Any, client: str) -> None:
        """Note that a client wants nothing any more: no task is named."""
        if self.clients.known(client) is not None:
            self.rows.releases.append((time() - self.begun, self.clients.of(client), []))
            self.clients.forget(client)

    @guarded
    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Note a worker."""
        self._note_worker(worker, has_joined=True)

    @guarded
    def remove_worker(self, scheduler: Any, worker: str, **more: Any) -> None:
        """Note that a worker left; the scheduler knows its state no more."""
        self._note_worker(worker, has_joined=False)
        self.workers.forget(worker)

    def _note_worker(self, address: str, *, has_joined: bool) -> None:
        state = self.scheduler.workers.get(address)
        threads, memory = (state.nthreads, state.memory_limit or 0) if state else (0, 0)
        about = time() - self.begun, self.workers.of(address), has_joined, threads, memory
        self.rows.workers.append(about)
