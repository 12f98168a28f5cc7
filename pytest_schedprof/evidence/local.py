"""What dask's local schedulers did: for threads, for processes, and for none of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from timeit import default_timer
from typing import Any

from dask.callbacks import Callback
from dask.diagnostics.profile import CacheProfiler, Profiler, ResourceProfiler
from dask.sizeof import sizeof

from pytest_schedprof.evidence.contract import Brought, EvidenceUnavailableError
from pytest_schedprof.evidence.pictures import as_json, local_picture, with_pictures
from pytest_schedprof.model.evidence import (
    CachedResult,
    LocalScheduler,
    LocalTask,
    ResourceSample,
)
from pytest_schedprof.model.result import BackendResult

INTERVAL_S = 0.1
"""Between looks at the process's memory and CPU: most tests are short."""


class LocalKind:
    """Dask's three profilers of them, and callbacks of the user's own."""

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        self._tasks = Profiler()
        self._resources = ResourceProfiler(dt=INTERVAL_S)
        self._cache = CacheProfiler(metric=sizeof, metric_name="bytes")
        self._callbacks = callbacks
        self._begun = default_timer()

    @property
    def _profilers(self) -> list[Any]:
        theirs = [each for each in self._callbacks if hasattr(each, "visualize")]
        return [self._tasks, self._resources, self._cache, *theirs]

    @contextmanager
    def take(self, number: int) -> Iterator[None]:
        """Called back from begin to end; a process looks at this one while a scheduler runs."""
        with ExitStack() as opened:
            opened.callback(self._resources.close)
            for each in (self._tasks, self._resources, self._cache, *self._callbacks):
                each.register()
                opened.callback(each.unregister)
            yield

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """As JSON, and as dask's own page, its plots aligned."""
        if not self._tasks.results:
            raise EvidenceUnavailableError("none of dask's local schedulers ran in the test")
        ended = default_timer()
        return with_pictures(
            {"local.json": as_json(self._told())},
            {"local.html": lambda: local_picture(self._profilers, self._begun, ended)},
        )

    def _told(self) -> LocalScheduler:
        begun = self._begun
        return LocalScheduler(
            tuple(
                LocalTask(str(key), start - begun, end - begun, str(worker))
                for key, _, start, end, worker in self._tasks.results
            ),
            tuple(
                ResourceSample(when - begun, memory, cpu)
                for when, memory, cpu in self._resources.results
            ),
            tuple(
                CachedResult(str(key), size, cached - begun, freed - begun)
                for key, _, size, cached, freed in self._cache.results
            ),
        )
