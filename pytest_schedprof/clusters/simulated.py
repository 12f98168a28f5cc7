"""The cluster `simulated`: a real scheduler and thousands of hollow workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_schedprof.clusters.own import OwnCluster

WORKERS_PER_PROCESS = 2500
"""Hollow workers per process: each takes two descriptors, whose number is limited."""


class SimulatedCluster(OwnCluster):
    """One process for the scheduler, and a few for all workers."""

    kind = "simulated"

    def _orders(self, workers: int, threads: int, options: Mapping[str, str]) -> list[Any]:
        return [
            {
                "role": "hollow-workers",
                "first": first,
                "count": min(WORKERS_PER_PROCESS, workers - first),
                "threads": threads,
                "block": 1 + number,
                "options": dict(options),
            }
            for number, first in enumerate(range(0, workers, WORKERS_PER_PROCESS))
        ]
