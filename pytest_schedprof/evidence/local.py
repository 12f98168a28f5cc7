"""The kind `local`: what dask's threaded, multiprocessing and synchronous schedulers did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from pkgutil import resolve_name
from reprlib import Repr
from time import time
from timeit import default_timer
from typing import Any

import msgspec
from dask.callbacks import Callback
from dask.diagnostics.profile import CacheProfiler, Profiler, ResourceData, ResourceProfiler
from dask.sizeof import sizeof
from dask.utils import funcname, key_split
from msgspec import Struct
from msgspec.structs import replace

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.evidence import usage
from pytest_schedprof.evidence.contract import (
    Brought,
    EvidenceUnavailableError,
    Kind,
    Need,
    ObservedTest,
    page,
    with_pictures,
)
from pytest_schedprof.model.evidence import CachedResult, LocalScheduler, LocalTask, ResourceSample
from pytest_schedprof.model.options import check_above_zero
from pytest_schedprof.model.result import BackendResult

PLAIN = (bool, int, float, complex, str, type(None))
"""Types whose values are shown; of others, which can be large, only the type is."""

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 40

MOST_ARGUMENTS = 6


def described(task: Any) -> str:
    """Return a task as a call: its function, and its arguments in short."""
    if isinstance(task, tuple) and task and callable(task[0]):  # before dask 2024.12
        return _call(task[0], task[1:], {})
    if callable(getattr(task, "func", None)):
        return _call(task.func, getattr(task, "args", ()), getattr(task, "kwargs", None) or {})
    return _short(task)


def _call(function: Any, args: Any, keywords: dict[str, Any]) -> str:
    parts = [*map(_short, args), *(f"{name}={_short(value)}" for name, value in keywords.items())]
    more = ["..."] if len(parts) > MOST_ARGUMENTS else []
    return f"{funcname(function)}({', '.join([*parts[:MOST_ARGUMENTS], *more])})"


def _short(value: Any) -> str:
    if type(value) in PLAIN:
        with suppress(ValueError):  # a whole number of thousands of digits
            return _SHORT.repr(value)
    if type(value).__name__ in ("TaskRef", "Alias"):  # what another task returned
        return _SHORT.repr(getattr(value, "key", value))
    if type(value).__name__ in ("List", "Tuple", "Set") and hasattr(value, "args"):  # dask's own
        return f"[{', '.join(_few(value.args))}]"
    if type(value) in (list, tuple):
        left, right = ("[", "]") if isinstance(value, list) else ("(", ")")
        return f"{left}{', '.join(_few(value))}{right}"
    if callable(value) and hasattr(value, "__name__"):
        return str(funcname(value))
    return type(value).__name__


def _few(values: Any) -> Iterator[str]:
    yield from map(_short, values[:MOST_ARGUMENTS])
    if len(values) > MOST_ARGUMENTS:
        yield "..."


ENDING_S = 5.0


class Resources(ResourceProfiler):
    """Samples from a process that is started as a program, before the first graph.

    dask's own is forked beside running threads, or leaves Python's fork server behind, which tests
    of dask take for a leak.
    """

    def register(self) -> None:
        """Start the process, so that no graph waits for that."""
        self._tracker: Any = None
        with suppress(OSError):  # the system has no process to spare
            self._tracker = _Sampler(self._dt)
        super().register()

    def close(self) -> None:
        """End the process, and release its pipes if it was killed."""
        if self._tracker:
            self._tracker.shutdown()
            self._tracker = None

    def _start_collect(self) -> None:
        if self._is_running():  # type: ignore[no-untyped-call]
            self._tracker.begin()

    def _stop_collect(self) -> None:
        if self._is_running():  # type: ignore[no-untyped-call]
            self.results.extend(self._tracker.end())


class _Sampler:
    """The process that samples. If it is killed there are no samples, and the graph goes on."""

    def __init__(self, interval_s: float) -> None:
        command = [sys.executable, "-m", usage.__name__, str(os.getpid()), str(interval_s)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=os.path.abspath(os.sep),  # no file beside the tests replaces a module
            start_new_session=True,  # a Ctrl-C is for the test
        )

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def begin(self) -> None:
        self._order(usage.BEGIN)

    def end(self) -> list[ResourceData]:
        self._order(usage.END)
        assert self._process.stdout
        line = self._process.stdout.readline()
        # It ends with the line's end, unless the process was killed.
        return [ResourceData(*sample) for sample in (json.loads(line) if line[-1:] == "\n" else ())]

    def shutdown(self) -> None:
        """End it. Processes that were forked meanwhile have the pipe, too, so closing is no end."""
        self._order(usage.END)
        self._order("")
        try:
            self._process.communicate(timeout=ENDING_S)
        except (subprocess.TimeoutExpired, OSError):
            self._process.kill()
            self._process.communicate()

    def _order(self, text: str) -> None:
        assert self._process.stdin
        with suppress(OSError):  # it was killed
            self._process.stdin.write(f"{text}\n")
            self._process.stdin.flush()


INTERVAL_S = 0.1
"""Time between samples of the process's memory and CPU; short, as most tests are."""

UNSAMPLED = (
    "memory and CPU are not in it: the program that samples them could not run, or was killed"
)

Metric = Callable[[Any], float]

METRICS: Mapping[str, Metric] = {"bytes": sizeof, "count": lambda result: 1}
"""Metrics of results that have a name of their own."""


class LocalOptions(Struct, frozen=True):
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
        name, metric = "", self.metric
        if isinstance(self.metric, str):
            name, metric = self.metric, METRICS.get(self.metric)
            if metric is None and ":" in name:
                with suppress(ImportError, AttributeError, ValueError):
                    metric = resolve_name(name)
        if not callable(metric):
            raise SettingsError(
                f"schedprof: option local.metric must be one of {', '.join(METRICS)}, a function, "
                f"or where to find one, as 'module:name', got {self.metric!r}"
            )
        return metric, name if name in METRICS else str(funcname(metric))


class LocalKind(Kind, name="local", description="dask's local schedulers", needs=[Need.CALLBACKS]):
    """Registers dask's three profilers of local schedulers, and the session's callbacks.

    A profiler among the callbacks is used instead of ours.
    """

    options_type = LocalOptions

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        callbacks = test.callbacks
        self._tasks = _theirs(callbacks, Profiler) or Profiler()
        resources: Any = Resources
        self._resources = _theirs(callbacks, ResourceProfiler) or resources(dt=self.options.dt)
        self._cache = _theirs(callbacks, CacheProfiler) or CacheProfiler(*self.options.sized())
        three = [self._tasks, self._resources, self._cache]
        self._callbacks = [*three, *(callback for callback in callbacks if callback not in three)]
        self._seen = {id(profiler): len(profiler.results) for profiler in three}
        """Number of results that a user's profiler already has from earlier tests."""
        self._begun = default_timer()
        self._epoch = time() - self._begun
        """What makes a profiler's times those of a calendar."""

    def _results(self, profiler: Any) -> list[Any]:
        return list(profiler.results[self._seen[id(profiler)] :])

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        """Register all callbacks. A resource profiler's process is ended at the latest here."""
        with ExitStack() as opened:
            opened.callback(self._resources.close)
            for callback in self._callbacks:
                callback.register()
                opened.callback(callback.unregister)
            yield

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        if not self._results(self._tasks):
            raise EvidenceUnavailableError("none of dask's local schedulers ran in the test")
        ended = default_timer()
        profilers = [callback for callback in self._callbacks if hasattr(callback, "visualize")]
        brought = with_pictures(
            {"local.json": msgspec.json.encode(self._data())},
            {"local.html": lambda: local_picture(profilers, self._begun, ended)},
        )
        if self._results(self._resources):
            return brought
        return replace(brought, notes=(*brought.notes, UNSAMPLED))

    def _data(self) -> LocalScheduler:
        epoch = self._epoch
        return LocalScheduler(
            tuple(
                LocalTask(str(key), epoch + start, epoch + end, str(worker), described(task))
                for key, task, start, end, worker in self._results(self._tasks)
            ),
            tuple(
                ResourceSample(epoch + moment, memory, cpu)
                for moment, memory, cpu in self._results(self._resources)
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
    return next((callback for callback in callbacks if isinstance(callback, kind)), None)


def local_picture(profilers: Sequence[Any], start: float, ended: float) -> bytes:
    """Draw dask's own plots of its local schedulers, one below the other."""
    from dask.diagnostics.profile_visualize import visualize

    shown = [copy(profiler) for profiler in profilers]  # users may read their profilers afterwards
    for profiler in shown:
        profiler.results = [_named(result) for result in profiler.results]
        # Set here because entering a profiler, which sets them, would clear its results.
        profiler.start_time, profiler.end_time = start, ended
    return page(visualize(shown, show=False, save=False), "local scheduler")


def _named(result: Any) -> Any:
    """Replace a result's task by its name, because dask's plots show whole tasks.

    Cached results are told apart by their representation, so there is one line for each name.
    """
    if not hasattr(result, "task"):
        return result

    class Named(type(result)):  # type: ignore[misc]
        def __repr__(self) -> str:
            return str(key_split(self.key))

    return Named(*result._replace(task=_Name(key_split(result.key))))


class _Name(str):
    """A string whose representation has no quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
