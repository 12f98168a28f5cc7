"""Disable the comparison of versions while thousands of hollow workers join.

When a worker joins, a scheduler compares the versions of two dozen packages on all workers. With
4000 workers that takes seven tenths of its time, and it grows with their square. Hollow workers of
one cluster have the same packages, so the comparison is disabled until all have joined. So is the
listing of all workers for it, which is quadratic, too: by cProfile it took four tenths of the time
in which 3,000 virtual workers join.
"""

from __future__ import annotations

from typing import Any

from distributed import Scheduler, SchedulerPlugin, versions

SAME = {"warning": "", "error": ""}
NOTHING: dict[str, Any] = {}


class Arrival(SchedulerPlugin):
    """Replaces the version check until the expected number of workers has joined."""

    name = "schedprof-arrival"

    def __init__(self, count: int) -> None:
        self.count = count
        self._joining: Scheduler | None = None
        """The scheduler while a worker joins, until it asks for its own versions."""
        self._hiding: Scheduler | None = None
        """The scheduler from then on, until it compares."""
        self._compare, self._own = versions.error_message, versions.get_versions
        versions.error_message = self._same
        versions.get_versions = self._hide_others

    def _hide_others(self, *args: Any, **keywords: Any) -> Any:
        """Return the versions here; if a worker joins, hide the others from what follows."""
        if self._joining is None:
            return self._own(*args, **keywords)
        self._hiding, self._joining = self._joining, None
        vars(self._hiding.workers)["items"] = tuple
        return NOTHING

    def _same(self, *args: Any, **keywords: Any) -> dict[str, str]:
        if self._hiding is not None:
            del vars(self._hiding.workers)["items"]
            self._hiding = None
        return SAME

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Restore the check and remove this plugin once the last expected worker joins."""
        self._joining = scheduler
        if len(scheduler.workers) >= self.count:
            self._joining = None
            versions.error_message, versions.get_versions = self._compare, self._own
            scheduler.remove_plugin(name=self.name)


def expect(count: int) -> dict[str, Any]:
    """Return the keywords of a scheduler that this number of hollow workers will join."""
    return {"plugins": [Arrival(count)]} if count else {}
