"""Counts objects and memory blocks of the scheduler's process while it holds tasks, and after.

A test often drops its futures as soon as it has waited for them, and the scheduler forgets their
tasks. So the first message that releases keys waits until the scheduler is quiet, and the reading
is taken then. Nothing is counted between readings, and nothing else is changed.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import linecache
import pickle
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

from distributed import profile

from . import facts
from .patches import replace
from .recordings import RECORDINGS, Recording, as_json, begin, under_way

RELEASING = "client-releases-keys"

QUIET_S = 0.05
"""A scheduler that made no transition for this long holds all tasks that the client waited for."""

PATIENCE_S = 2.0
"""How long a release waits at most for that."""

STEADY_S = 0.15

GROWN = 2
"""By how much more tasks must be held for a further reading: few tasks at a time cost few."""


def read(scheduler: Any) -> bytes:
    """Return the numbers of tasks, of objects by type, and of blocks, after a collection.

    They are packed, so that a reading takes two blocks itself. What is kept in logs of a fixed
    length is put aside: it depends on what the scheduler did before.
    """
    _forget_executing(scheduler)
    # dask's profile of the event loop looks up lines at some time, each time of a whole file.
    linecache.clearcache()
    emptied = _empty_messages()
    with profile.lock, _logs_aside(scheduler):
        for _ in range(2):  # what the first one frees may have kept more alive
            gc.collect()
        blocks = sys.getallocatedblocks() - emptied
        types = Counter(map(type, filter(_is_counted, gc.get_objects())))
    named: Counter[str] = Counter({"builtins:dict": _unseen(scheduler)})
    for kind, number in types.items():
        named[f"{kind.__module__}:{kind.__qualname__}"] += number
    record = {"tasks": len(scheduler.tasks), "blocks": blocks, "types": named}
    return json.dumps(record).encode("ascii")


def _unseen(scheduler: Any) -> int:
    """Count the dicts of workers that are empty, for they are none of those that are counted."""
    return sum(
        type(value) is dict and not (gc.is_tracked(value) and _is_counted(value))
        for worker in scheduler.workers.values()
        for value in gc.get_referents(worker)
    )


def _forget_executing(scheduler: Any) -> None:
    """Drop tasks that are gone from what workers last said to execute; they say it by the clock."""
    for worker in scheduler.workers.values():
        for task in [task for task in worker.executing if task.state == "forgotten"]:
            del worker.executing[task]


def _streams() -> Iterator[tuple[FrameType, bool]]:
    """Yield the frames that handle streams, and whether each waits for the next messages."""
    for task in asyncio.all_tasks():
        coroutine: Any = task.get_coro()
        while (frame := getattr(coroutine, "cr_frame", None)) is not None:
            awaited = coroutine.cr_await
            if frame.f_code.co_name == "handle_stream":
                yield frame, getattr(awaited, "__name__", "") == "read"
            coroutine = awaited


async def _all_handled() -> None:
    """Wait until no stream is between its messages, which takes a turn of the loop or two."""
    while not all(is_reading for _, is_reading in _streams()):
        await asyncio.sleep(0)


def _empty_messages() -> int:
    """Empty the messages that were read last from each stream; return their number.

    Who reads a stream keeps them in local variables until the next ones come: a heartbeat, at any
    time. Those that released tasks are as many as the tasks. They are emptied, and not dropped,
    because since Python 3.14 a frame keeps what another one takes from its variables.
    """
    emptied = 0
    for frame in [frame for frame, is_reading in _streams() if is_reading]:
        for message in frame.f_locals.get("msgs", ()):
            if type(message) is dict:
                emptied += 1
                message.clear()
    return emptied


def _is_counted(thing: object) -> bool:
    """Whether it is no dict of mere numbers and strings, which only Python 3.14 and newer track."""
    return type(thing) is not dict or any(map(gc.is_tracked, thing.values()))


@contextmanager
def _logs_aside(scheduler: Any) -> Iterator[None]:
    """Pack the content of logs for developers, of the last thousand events, for a moment."""
    packed = []
    for log in _logs(scheduler):
        with suppress(Exception):  # plugins may log anything
            packed.append((log, pickle.dumps(list(log))))
            log.clear()
    try:
        yield
    finally:
        for log, content in packed:
            log.extend(pickle.loads(content))


def _logs(scheduler: Any) -> Iterator[Any]:
    yield scheduler.transition_log
    yield from filter(None, [getattr(scheduler.io_loop, "profile", None)])
    stealing = scheduler.extensions.get("stealing")
    yield from filter(None, [getattr(stealing, "log", None)])
    topics = getattr(getattr(scheduler, "_broker", None), "_topics", {})
    for topic in list(topics.values()):
        yield topic.events


class ObjectsRecording(Recording):
    """Readings of one window."""

    kind = "objects"

    def __init__(self, client: str, scheduler: Any) -> None:
        super().__init__(client)
        self.scheduler = scheduler
        self.undo = ExitStack()
        self.release: Callable[..., Any] = scheduler.stream_handlers[RELEASING]
        self.waiting: dict[str, list[Any]] = {}
        """Keys that wait to be released, by client. A list of the tasks' own keys: the messages
        would be among the objects that are counted."""
        self.timer: asyncio.TimerHandle | None = None
        self.deadline, self.transitions = 0.0, 0
        self.start_tasks = self.most = 0
        self.held = b""

    def begin(self) -> None:
        """Take the first reading and let releases wait."""
        # Copies of messages are kept for each worker until a thousand have come.
        comms = (self.scheduler.stream_comms, self.scheduler.client_comms)
        for comm in [comm for table in comms for comm in table.values()]:
            if hasattr(comm, "recent_message_log"):
                replace(comm, "recent_message_log", deque(maxlen=0), self.undo)
        self.start_tasks = len(self.scheduler.tasks)
        self.before = read(self.scheduler)
        handlers = self.scheduler.stream_handlers
        for name, handler in list(handlers.items()):
            if name == RELEASING:
                replace(handlers, name, self._release, self.undo)
            elif "client" in inspect.signature(handler).parameters and "heartbeat" not in name:
                replace(handlers, name, self._in_order(handler), self.undo)

    def _release(self, keys: Any, client: str, stimulus_id: Any = None) -> None:
        """Do as `Scheduler.client_releases_keys`, after a reading if many tasks are held."""
        held = len(self.scheduler.tasks) - self.start_tasks
        if not self.waiting and held <= GROWN * self.most:
            self.release(keys=keys, client=client, stimulus_id=stimulus_id)
            return
        tasks = self.scheduler.tasks
        known = (tasks[key].key if key in tasks else key for key in keys)
        self.waiting.setdefault(client, []).extend(known)
        if self.timer is None:
            self.deadline = facts.now() + PATIENCE_S
            self._wait()

    def _wait(self) -> None:
        self.transitions = self.scheduler.transition_counter
        self.timer = asyncio.get_running_loop().call_later(QUIET_S, self._look)

    def _look(self) -> None:
        """Take the reading if the scheduler is quiet, and release; else wait on."""
        is_quiet = self.transitions == self.scheduler.transition_counter
        is_quiet = is_quiet and all(is_reading for _, is_reading in _streams())
        if not is_quiet and facts.now() < self.deadline:
            self._wait()
            return
        if is_quiet:
            self.take()
        self._let_go()

    def take(self) -> None:
        """Take a reading of what is held, if that is more than at any before."""
        held = len(self.scheduler.tasks) - self.start_tasks
        if held > self.most:
            self.most, self.held = held, read(self.scheduler)

    def _let_go(self) -> None:
        """Release what waits."""
        if self.timer is not None:
            self.timer.cancel()
        waiting, self.waiting, self.timer = self.waiting, {}, None
        for client, keys in waiting.items():
            if client in self.scheduler.clients:
                self.release(keys=keys, client=client)

    def _in_order(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Return a handler before which the releases that came before it are done."""
        if asyncio.iscoroutinefunction(handler):

            async def handle_later(*args: Any, **keywords: Any) -> Any:
                self._let_go()
                return await handler(*args, **keywords)

            return handle_later

        def handle(*args: Any, **keywords: Any) -> Any:
            self._let_go()
            return handler(*args, **keywords)

        return handle

    async def end(self, timeout: float) -> dict[str, Any]:
        try:
            await _all_handled()
            self.take()
            self._let_go()
            await facts.settle(STEADY_S, min(PATIENCE_S, timeout), dask_scheduler=self.scheduler)
            await _all_handled()
            after = read(self.scheduler)
        finally:
            self._restore()
        readings = {"before": self.before, "held": self.held, "after": after}
        read_out = {name: json.loads(text) if text else None for name, text in readings.items()}
        self.content = as_json({"schedprof_objects": 1, **read_out})
        return {}

    def _restore(self) -> None:
        self._let_go()
        self.undo.close()


async def start(client: str, dask_scheduler: Any = None) -> dict[str, Any]:
    """Take the first reading; return a `token` or a `problem`."""
    if ObjectsRecording.kind in under_way(dask_scheduler):
        return {"problem": "busy"}
    if not hasattr(dask_scheduler, "stream_handlers"):  # the test's own process
        return {"problem": "shared"}
    recording = ObjectsRecording(client, dask_scheduler)
    await _all_handled()
    try:
        recording.begin()
    except BaseException:
        recording._restore()
        raise
    return begin(dask_scheduler, recording)


async def end_window(token: str, dask_scheduler: Any = None) -> None:
    """Take the reading of what is held at the end of the window."""
    recording = getattr(dask_scheduler, RECORDINGS, {}).get(token)
    await _all_handled()
    if recording is not None:
        recording.take()
