"""What dask's local schedulers did: for threads, for processes, and for none of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from timeit import default_timer
from typing import Any

from dask.callbacks import Callback
from dask.diagnostics.profile import CacheProfiler, Profiler, ResourceProfiler
from dask.sizeof import sizeof

from pytest_schedprof.evidence.contract import Brought, EvidenceUnavailableError, Kind
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


class LocalKind(Kind):
    """Dask's three profilers of them, and callbacks of the user's own.

    A profiler of the user's stands for ours of its kind: so its interval or its metric is chosen.
    """

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        self._tasks = _theirs(callbacks, Profiler) or Profiler()
        self._resources = _theirs(callbacks, ResourceProfiler) or ResourceProfiler(dt=INTERVAL_S)
        self._cache = _theirs(callbacks, CacheProfiler) or CacheProfiler(sizeof, "bytes")
        three = [self._tasks, self._resources, self._cache]
        self._callbacks = [*three, *(each for each in callbacks if each not in three)]
        self._seen = {id(each): len(each.results) for each in three}
        """Results that a profiler of the user's brought from earlier tests."""
        self._begun = default_timer()

    @property
    def _profilers(self) -> list[Any]:
        return [each for each in self._callbacks if hasattr(each, "visualize")]

    def _results(self, profiler: Any) -> list[Any]:
        return list(profiler.results[self._seen[id(profiler)] :])

    @contextmanager
    def take(self, number: int) -> Iterator[None]:
        """Called back from begin to end; a process looks at this one while a scheduler runs."""
        with ExitStack() as opened:
            opened.callback(self._resources.close)
            for each in self._callbacks:
                each.register()
                opened.callback(each.unregister)
            yield

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """As JSON, and as dask's own page, its plots aligned."""
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
