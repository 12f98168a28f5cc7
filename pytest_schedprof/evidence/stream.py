"""Dask's task stream, for the kinds that need it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_schedprof.agent import task_stream
from pytest_schedprof.clusters.control import Control


class Stream:
    """Notes tasks while it is watched; all kinds of a test share what it noted."""

    def __init__(self, control: Control) -> None:
        self._control = control
        control.call(task_stream.hold)

    @contextmanager
    def watched(self) -> Iterator[int]:
        """With the number of tasks that were noted before."""
        first = self._control.call(task_stream.watch)
        try:
            yield first
        finally:
            self._control.call(task_stream.unwatch)

    def close(self) -> None:
        """Nobody of this kind will watch or read it again."""
        self._control.call(task_stream.let_go)
