"""Hollow workers, thousands of them, beside a real scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_schedprof.clusters.own import OwnCluster

IN_A_PROCESS = 2500
"""Each worker takes two descriptors, and systems allow a process so many of them."""


class SimulatedCluster(OwnCluster):
    """A process for the scheduler, and one or a few for all workers."""

    kind = "simulated"

    def _orders(self, workers: int, threads: int, options: Mapping[str, str]) -> list[Any]:
        return [
            {
                "role": "hollow-workers",
                "first": first,
                "count": min(IN_A_PROCESS, workers - first),
                "threads": threads,
                "block": 1 + number,
                "options": dict(options),
            }
            for number, first in enumerate(range(0, workers, IN_A_PROCESS))
        ]
