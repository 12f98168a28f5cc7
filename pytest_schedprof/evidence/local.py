"""The kind `local`: what dask's threaded, multiprocessing and synchronous schedulers did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from timeit import default_timer
from typing import Any

from dask.callbacks import Callback
from dask.diagnostics.profile import CacheProfiler, Profiler, ResourceProfiler
from dask.sizeof import sizeof

from pytest_schedprof.evidence.contract import (
    Brought,
    EvidenceUnavailableError,
    Kind,
    Need,
    ObservedTest,
)
from pytest_schedprof.evidence.pictures import as_json, local_picture, with_pictures
from pytest_schedprof.model.evidence import (
    CachedResult,
    LocalScheduler,
    LocalTask,
    ResourceSample,
)
from pytest_schedprof.model.result import BackendResult

INTERVAL_S = 0.1
"""Time between samples of the process's memory and CPU; short, as most tests are."""


class Resources(ResourceProfiler):
    """Ends its process with each graph, because tests of dask check for processes left behind."""

    def _finish(self, dsk: Any, state: Any, failed: bool) -> None:
        super()._finish(dsk, state, failed)  # type: ignore[no-untyped-call]
        self.close()  # type: ignore[no-untyped-call]


class LocalKind(
    Kind,
    name="local",
    description="dask's local schedulers",
    needs=[Need.CALLBACKS],
):
    """Registers dask's three profilers of local schedulers, and the session's callbacks.

    A profiler among the callbacks is used instead of ours, so that users can choose its interval
    or its metric.
    """

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        callbacks = test.callbacks
        self._tasks = _theirs(callbacks, Profiler) or Profiler()
        ours: Any = Resources
        self._resources = _theirs(callbacks, ResourceProfiler) or ours(dt=INTERVAL_S)
        self._cache = _theirs(callbacks, CacheProfiler) or CacheProfiler(sizeof, "bytes")
        three = [self._tasks, self._resources, self._cache]
        self._callbacks = [*three, *(each for each in callbacks if each not in three)]
        self._seen = {id(each): len(each.results) for each in three}
        """Number of results that a user's profiler already has from earlier tests."""
        self._begun = default_timer()

    @property
    def _profilers(self) -> list[Any]:
        return [each for each in self._callbacks if hasattr(each, "visualize")]

    def _results(self, profiler: Any) -> list[Any]:
        return list(profiler.results[self._seen[id(profiler)] :])

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        """Register all callbacks. A resource profiler's process is ended at the latest here."""
        with ExitStack() as opened:
            opened.callback(self._resources.close)
            for each in self._callbacks:
                each.register()
                opened.callback(each.unregister)
            yield

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """Return the results as JSON, and dask's own page of aligned plots."""
        if not self._results(self._tasks):
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
                for key, _, start, end, worker in self._results(self._tasks)
            ),
            tuple(
                ResourceSample(when - begun, memory, cpu)
                for when, memory, cpu in self._results(self._resources)
            ),
            tuple(
                CachedResult(str(key), float(amount), cached - begun, freed - begun)
                for key, _, amount, cached, freed in self._results(self._cache)
            ),
            str(self._cache._metric_name),
        )


def _theirs(callbacks: Sequence[Callback], kind: type[Callback]) -> Any:
    return next((each for each in callbacks if isinstance(each, kind)), None)
