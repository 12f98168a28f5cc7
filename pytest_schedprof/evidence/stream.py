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

    @contextmanager
    def used_up(self) -> Iterator[None]:
        """To be read for the last time."""
        try:
            with self.watched():
                yield
        finally:
            self._control.call(task_stream.let_go)
