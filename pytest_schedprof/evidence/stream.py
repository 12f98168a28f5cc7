"""Control dask's task stream on the scheduler, for the kinds that need it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_schedprof.agent import task_stream
from pytest_schedprof.remote.control import Control


class Stream:
    """A task stream that records tasks while it is watched; all kinds of a test share it."""

    def __init__(self, control: Control) -> None:
        self._control = control
        control.call(task_stream.hold)

    @contextmanager
    def watched(self) -> Iterator[int]:
        """Record tasks meanwhile; yield the number of tasks that were recorded before."""
        first = self._control.call(task_stream.watch)
        try:
            yield first
        finally:
            self._control.call(task_stream.unwatch)

    def close(self) -> None:
        """Release the stream; it is removed when no kind holds it."""
        self._control.call(task_stream.let_go)
