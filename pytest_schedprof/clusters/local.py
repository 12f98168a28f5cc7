"""The cluster `local`: a real scheduler in one process, real workers in another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_schedprof.clusters.options import worker_options
from pytest_schedprof.clusters.own import HOST, OwnCluster


class LocalProcesses(OwnCluster):
    """One process for the scheduler, and one that all workers share."""

    kind = "local"

    def _orders(self, workers: int, threads: int, options: Mapping[str, str]) -> list[Any]:
        keywords = {
            "host": HOST,
            "nthreads": threads,
            "dashboard": False,
            # All share a process, so no worker knows its own memory.
            "memory_limit": 0,
            "local_directory": str(self._directory),
        }
        order = {
            "role": "workers",
            "count": workers,
            "options": {**keywords, **worker_options(options)},
        }
        return [order] if workers else []
