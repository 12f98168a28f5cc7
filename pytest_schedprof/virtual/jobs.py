"""Counts the threads that work for event loops of the test's process (`asyncio.to_thread`)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_schedprof.virtual.blocked import Watch, watch_this_thread


class Jobs:
    """While one is at work, the clock stands still."""

    number = 0
    """How many there are, but for those that wait for a client."""

    def __init__(self) -> None:
        self._watches: dict[int, Watch] = {}

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Watch whether this thread is blocked in a lock."""
        here = threading.get_ident()
        self._watches[here] = watch_this_thread()
        try:
            yield
        finally:
            del self._watches[here]

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Leave this thread unwatched while it waits for a client."""
        here = threading.get_ident()
        watch = self._watches.pop(here, None)
        try:
            yield
        finally:
            if watch is not None:
                self._watches[here] = watch

    def are_busy(self) -> bool:
        """Whether one works, and is not blocked in a lock."""
        if self.number <= 0:
            return False
        blocked = sum(each.find() is not None for each in list(self._watches.values()))
        return self.number > blocked
