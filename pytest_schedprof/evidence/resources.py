"""Samples memory and CPU of the test's process, for dask's local schedulers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from timeit import default_timer
from typing import Any

import psutil
from dask.diagnostics.profile import ResourceData, ResourceProfiler

MEGABYTE = 1e6


class Resources(ResourceProfiler):
    """Samples in a thread that ends with each graph.

    dask's own does it in a process. That is forked beside running threads, or leaves Python's fork
    server behind, which tests of dask take for a leak.
    """

    def _start_collect(self) -> None:
        if not self._is_running():  # type: ignore[no-untyped-call]
            self._tracker: Any = _Sampler(self._dt)
            self._tracker.start()

    def _stop_collect(self) -> None:
        if self._is_running():  # type: ignore[no-untyped-call]
            self._tracker.shutdown()
            self.results.extend(self._tracker.samples)


class _Sampler(threading.Thread):
    """Adds what the process and its children use, at once and every `dt` seconds."""

    def __init__(self, dt: float) -> None:
        super().__init__(name="schedprof-resources", daemon=True)
        self.samples: list[ResourceData] = []
        self._dt = dt
        self._ended = threading.Event()

    def run(self) -> None:
        """Sample until it is shut down."""
        process = psutil.Process()
        observed = [process, *process.children()]
        while True:
            self.samples.append(_sample(observed))
            if self._ended.wait(self._dt):
                return

    def shutdown(self) -> None:
        """End it, and wait for its last sample."""
        self._ended.set()
        self.join()


def _sample(observed: list[psutil.Process]) -> ResourceData:
    when, used = default_timer(), list(_used(observed))
    return ResourceData(when, sum(held for held, _ in used), sum(cpu for _, cpu in used))


def _used(observed: list[psutil.Process]) -> Iterator[tuple[float, float]]:
    """Yield megabytes and percent of a core of each process that still runs."""
    for each in observed:
        try:
            yield each.memory_info().rss / MEGABYTE, each.cpu_percent()
        except psutil.Error:
            continue
