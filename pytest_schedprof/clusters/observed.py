"""Tells observers of schedulers and workers in this process: when they have begun, and will end.

They live within a test, so nobody can ask them before or after it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from distributed import Scheduler, Worker
from distributed.core import Status

ANSWER_S = 5.0
"""How long to wait for an event loop in another thread."""


class Observer:
    """Is called in the thread of the event loop of what it observes."""

    def begin(self, scheduler: Scheduler) -> None:
        """Begin with a scheduler that runs; no worker has joined it, unless it ran before."""

    def end(self, scheduler: Scheduler) -> None:
        """End with a scheduler that is about to close, or goes on after the run of the body."""

    def leave(self, worker: Worker) -> None:
        """Read a worker that is about to close, or goes on after the run of the body."""


class _Observation:
    """One observer during one run of the body."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.errors: list[Exception] = []
        self._begun: list[Scheduler] = []
        self._left: list[Worker] = []

    def begin(self, scheduler: Scheduler) -> None:
        if scheduler not in self._begun:
            self._begun.append(scheduler)
            self._keeping_errors(self.observer.begin, scheduler)

    def end(self, scheduler: Scheduler) -> None:
        if scheduler in self._begun:
            self._begun.remove(scheduler)
            self._keeping_errors(self.observer.end, scheduler)

    def leave(self, worker: Worker) -> None:
        if worker not in self._left:
            self._left.append(worker)
            self._keeping_errors(self.observer.leave, worker)

    def _keeping_errors(self, call: Callable[[Any], None], one: Any) -> None:
        """Keep errors: the scheduler of a test must close as it would without an observer."""
        try:
            call(one)
        except Exception as error:
            self.errors.append(error)

    def end_living(self) -> None:
        for worker in _running(Worker):
            _on_loop(worker, functools.partial(self.leave, worker))
        for scheduler in list(self._begun):
            _on_loop(scheduler, functools.partial(self.end, scheduler))


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Observe every scheduler and worker of this process; raise the observer's error at the end."""
    seen = _Observation(observer)
    for scheduler in _running(Scheduler):
        _on_loop(scheduler, functools.partial(seen.begin, scheduler))
    with ExitStack() as undo:
        _patch(Scheduler, "start_unsafe", undo, after=seen.begin)
        _patch(Scheduler, "close", undo, before=seen.end)
        _patch(Worker, "close", undo, before=seen.leave)
        yield
    seen.end_living()
    if seen.errors:
        raise seen.errors[0]


def _patch(
    owner: type,
    name: str,
    undo: ExitStack,
    before: Callable[[Any], None] = lambda one: None,
    after: Callable[[Any], None] = lambda one: None,
) -> None:
    method = getattr(owner, name)

    @functools.wraps(method)
    async def patched(one: Any, *args: Any, **keywords: Any) -> Any:
        before(one)
        found = await method(one, *args, **keywords)
        after(one)
        return found

    setattr(owner, name, patched)
    undo.callback(setattr, owner, name, method)


def _running(kind: Any) -> list[Any]:
    return [each for each in list(kind._instances) if each.status == Status.running]


def _on_loop(one: Any, call: Callable[[], None]) -> None:
    """Call in the thread of the event loop: at once if that is this one."""
    if one.thread_id == threading.get_ident():
        call()
        return
    done = threading.Event()

    def run() -> None:
        call()
        done.set()

    one.loop.add_callback(run)
    done.wait(ANSWER_S)
