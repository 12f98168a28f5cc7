"""A thread that does what would keep the event loop waiting: it packs the ring and writes it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

Job = Callable[[], Any]


class Requests:
    """Jobs that are done one after the other, in a thread that waits for them.

    A signal's handler may ask, too: the queue's `put` can interrupt itself.
    """

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Job, Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="schedprof-blackbox", daemon=True)
        self._thread.start()

    def ask(self, job: Job) -> Future[Any]:
        """Let a job be done soon."""
        future: Future[Any] = Future()
        self._waiting.put((job, future))
        return future

    def end(self) -> None:
        """End the thread after the jobs that wait."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (asked := self._waiting.get()) is not None:
            job, future = asked
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job())
            except Exception as error:
                future.set_exception(error)
