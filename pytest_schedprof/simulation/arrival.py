"""What a scheduler need not do while thousands of hollow workers arrive.

With each worker that comes it compares the versions of two dozen packages on all workers: that is
seven tenths of its work with 4000 of them, and grows with their square. Hollow workers of one
cluster have the same packages, so the comparison waits until all have come.
"""

from __future__ import annotations

from typing import Any

from distributed import Scheduler, SchedulerPlugin, versions

SAME = {"warning": "", "error": ""}


class Arrival(SchedulerPlugin):
    """Stands before the comparison until so many workers are there."""

    name = "schedprof-arrival"

    def __init__(self, count: int) -> None:
        self.count = count
        self.compare = versions.error_message
        versions.error_message = lambda *args, **keywords: dict(SAME)

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Leave with the last one that is expected."""
        if len(scheduler.workers) >= self.count:
            versions.error_message = self.compare
            scheduler.remove_plugin(name=self.name)


def expect(count: int) -> dict[str, Any]:
    """Keywords of a scheduler to which so many hollow workers will come."""
    return {"plugins": [Arrival(count)]} if count else {}
