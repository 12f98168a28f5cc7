"""The default cluster: a real scheduler in one process, real workers in another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_schedprof.clusters.options import worker_options
from pytest_schedprof.clusters.own import HOST, OwnCluster


class LocalCluster(OwnCluster):
    """Two processes; the workers share one."""

    kind = "local"

    def _orders(self, workers: int, threads: int, options: Mapping[str, str]) -> list[Any]:
        keywords = {
            "host": HOST,
            "nthreads": threads,
            "dashboard": False,
            # All share a process, so none can tell its own memory from the others'.
            "memory_limit": 0,
            "local_directory": str(self._directory),
        }
        order = {
            "role": "workers",
            "count": workers,
            "options": {**keywords, **worker_options(options)},
        }
        return [order] if workers else []
