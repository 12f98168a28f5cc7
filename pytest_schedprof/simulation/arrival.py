"""Disable the comparison of versions while thousands of hollow workers join.

When a worker joins, a scheduler compares the versions of two dozen packages on all workers. With
4000 workers that takes seven tenths of its time, and it grows with their square. Hollow workers of
one cluster have the same packages, so the comparison is disabled until all have joined.
"""

from __future__ import annotations

from typing import Any

from distributed import Scheduler, SchedulerPlugin, versions

SAME = {"warning": "", "error": ""}


class Arrival(SchedulerPlugin):
    """Replaces the version check until the expected number of workers has joined."""

    name = "schedprof-arrival"

    def __init__(self, count: int) -> None:
        self.count = count
        self.compare = versions.error_message
        versions.error_message = lambda *args, **keywords: dict(SAME)

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Restore the check and remove this plugin once the last expected worker joins."""
        if len(scheduler.workers) >= self.count:
            versions.error_message = self.compare
            scheduler.remove_plugin(name=self.name)


def expect(count: int) -> dict[str, Any]:
    """Return the keywords of a scheduler that this number of hollow workers will join."""
    return {"plugins": [Arrival(count)]} if count else {}
