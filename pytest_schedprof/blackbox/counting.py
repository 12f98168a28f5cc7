"""Reads the scheduler's own counters, and counts the messages that it receives."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from inspect import iscoroutinefunction
from typing import Any

from pytest_schedprof.agent.facts import finished_tasks
from pytest_schedprof.model.ring import Figures

Sent = tuple[int, int]
"""Messages and batches."""


class Counting:
    """Counters that only grow, though the scheduler forgets some of its own."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.received = Received(scheduler.stream_handlers)
        self.process = scheduler.monitor.proc
        self.known: dict[str, Sent] = {}
        """What was sent to each worker and client when the counters were read last."""
        self.sent = self.batches = self.tasks = self.tasks_then = 0

    def read(self) -> Figures:
        """Return the counters of this moment."""
        scheduler = self.scheduler
        self._count_sent()
        self._count_tasks()
        return Figures(
            at=time.time(),
            cpu=time.process_time(),
            thread_cpu=time.thread_time(),
            tasks=self.tasks,
            transitions=scheduler.transition_counter,
            rss=self.process.memory_info().rss,
            workers=len(scheduler.workers),
            threads=scheduler.total_nthreads,
            clients=len(scheduler.client_comms),
            sent=self.sent,
            batches=self.batches,
            received=self.received.counts(),
        )

    def _count_tasks(self) -> None:
        """Add the tasks since the last time; `Client.restart` begins at zero again."""
        now = finished_tasks(self.scheduler)
        self.tasks += now - self.tasks_then if now >= self.tasks_then else now
        self.tasks_then = now

    def _count_sent(self) -> None:
        known = dict(self._sent_to_each())
        for name, (messages, batches) in known.items():
            before = self.known.get(name, (0, 0))
            if messages < before[0]:  # it has connected anew
                before = 0, 0
            self.sent += messages - before[0]
            self.batches += batches - before[1]
        self.known = known

    def _sent_to_each(self) -> Iterator[tuple[str, Sent]]:
        for comms in (self.scheduler.stream_comms, self.scheduler.client_comms):
            for name, comm in comms.items():
                yield name, (comm.message_count, comm.batch_count)


class Received:
    """Wraps the handlers of messages on streams to count their calls."""

    def __init__(self, handlers: dict[str, Callable[..., Any]]) -> None:
        self.handlers = handlers
        self.originals: dict[str, Callable[..., Any]] = {}
        self.mine: dict[str, Callable[..., Any]] = {}
        self.calls: dict[str, list[int]] = {}
        """A list of one number is the fastest thing to count in."""

    def begin(self) -> None:
        """Wrap each handler that is a plain function."""
        self.originals = dict(self.handlers)
        for name, handler in self.originals.items():
            if not iscoroutinefunction(handler):
                self.calls[name] = [0]
                self.mine[name] = counted(self.calls[name], handler)
        self.handlers.update(self.mine)

    def end(self) -> None:
        """Restore those that nobody has wrapped in turn."""
        for name, mine in self.mine.items():
            if self.handlers.get(name) is mine:
                self.handlers[name] = self.originals[name]

    def counts(self) -> dict[str, int]:
        """Return the calls of each handler that was called."""
        return {name: calls for name, (calls,) in self.calls.items() if calls}


def counted(calls: list[int], handler: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(handler)
    def received(*args: Any, **keywords: Any) -> Any:
        calls[0] += 1
        return handler(*args, **keywords)

    return received


WRAPPER = counted([], print).__code__
"""The code of all wrappers, which is in no sample."""
