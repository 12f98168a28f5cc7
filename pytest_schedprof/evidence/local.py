"""The kind `local`: what dask's threaded, multiprocessing and synchronous schedulers did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from time import time
from timeit import default_timer
from typing import Any

from dask.callbacks import Callback
from dask.diagnostics.profile import CacheProfiler, Profiler, ResourceProfiler
from dask.sizeof import sizeof
from dask.utils import funcname

from pytest_schedprof.backends.options import check_above_zero
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.evidence.contract import (
    Brought,
    EvidenceUnavailableError,
    Kind,
    Need,
    ObservedTest,
)
from pytest_schedprof.evidence.described import described
from pytest_schedprof.evidence.pictures import as_json, local_picture, with_pictures
from pytest_schedprof.evidence.resources import Resources
from pytest_schedprof.model.evidence import (
    CachedResult,
    LocalScheduler,
    LocalTask,
    ResourceSample,
)
from pytest_schedprof.model.result import BackendResult

INTERVAL_S = 0.1
"""Time between samples of the process's memory and CPU; short, as most tests are."""

UNSAMPLED = (
    "memory and CPU are not in it: the program that samples them could not run, or was killed"
)

Metric = Callable[[Any], float]

METRICS: Mapping[str, Metric] = {"bytes": sizeof, "count": lambda result: 1}
"""Metrics of results that have a name of their own."""


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """Options of the kind; a profiler that the user registers has its own."""

    dt: float = INTERVAL_S
    """Seconds between samples of memory and CPU."""
    metric: Any = "bytes"
    """Size of a result: `bytes`, `count`, a function, or where to find it, as `module:name`."""

    def __post_init__(self) -> None:
        check_above_zero("local.dt", self.dt)
        self.sized()

    def sized(self) -> tuple[Metric, str]:
        """Return the metric and its name.

        Raises:
            SettingsError: for one that is none.
        """
        found = METRICS.get(self.metric) if isinstance(self.metric, str) else self.metric
        if found is None and ":" in self.metric:
            found = _imported(self.metric)
        if not callable(found):
            raise SettingsError(
                f"schedprof: option local.metric must be one of {', '.join(METRICS)}, a function, "
                f"or where to find one, as 'module:name', got {self.metric!r}"
            )
        return found, self.metric if self.metric in METRICS else str(funcname(found))


def _imported(place: str) -> Any:
    """Return what is at a place, or None."""
    try:
        return resolve_name(place)
    except (ImportError, AttributeError, ValueError):
        return None


class LocalKind(
    Kind,
    name="local",
    description="dask's local schedulers",
    needs=[Need.CALLBACKS],
):
    """Registers dask's three profilers of local schedulers, and the session's callbacks.

    A profiler among the callbacks is used instead of ours.
    """

    options_type = LocalOptions

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        callbacks = test.callbacks
        self._tasks = _theirs(callbacks, Profiler) or Profiler()
        ours: Any = Resources
        self._resources = _theirs(callbacks, ResourceProfiler) or ours(dt=self.options.dt)
        self._cache = _theirs(callbacks, CacheProfiler) or CacheProfiler(*self.options.sized())
        three = [self._tasks, self._resources, self._cache]
        self._callbacks = [*three, *(each for each in callbacks if each not in three)]
        self._seen = {id(each): len(each.results) for each in three}
        """Number of results that a user's profiler already has from earlier tests."""
        self._begun = default_timer()
        self._epoch = time() - self._begun
        """What makes a profiler's times those of a calendar."""

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
        brought = with_pictures(
            {"local.json": as_json(self._told())},
            {"local.html": lambda: local_picture(self._profilers, self._begun, ended)},
        )
        if self._results(self._resources):
            return brought
        return replace(brought, notes=(*brought.notes, UNSAMPLED))

    def _told(self) -> LocalScheduler:
        epoch = self._epoch
        return LocalScheduler(
            tuple(
                LocalTask(str(key), epoch + start, epoch + end, str(worker), described(task))
                for key, task, start, end, worker in self._results(self._tasks)
            ),
            tuple(
                ResourceSample(epoch + when, memory, cpu)
                for when, memory, cpu in self._results(self._resources)
            ),
            tuple(
                CachedResult(
                    str(key), float(amount), epoch + cached, epoch + freed, described(task)
                )
                for key, task, amount, cached, freed in self._results(self._cache)
            ),
            str(self._cache._metric_name),
            epoch + self._begun,
            self._resources._dt,
        )


def _theirs(callbacks: Sequence[Callback], kind: type[Callback]) -> Any:
    return next((each for each in callbacks if isinstance(each, kind)), None)
