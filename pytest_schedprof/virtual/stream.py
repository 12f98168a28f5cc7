"""The task stream of a window: when and where each task ran, and what was fetched meanwhile."""

from __future__ import annotations

from typing import Any

from pytest_schedprof.virtual.tables import Names, Table


class Stream:
    """Tasks that were reported finished, and the transfers that they waited for."""

    def __init__(self, keys: Names, workers: Names, begun: float) -> None:
        self.tasks = Table("key", "worker", "start", "took", "nbytes")
        self.transfers = Table("worker", "start", "took")
        self._keys, self._workers = keys, workers
        self._begun = begun

    def finished(self, worker: str, message: dict[str, Any]) -> None:
        """Note a task that a worker reports finished."""
        number = self._workers[worker]
        for each in message.get("startstops", ()):
            start = round((each["start"] - self._begun) * 1e6)
            took = round((each["stop"] - self._begun) * 1e6) - start
            if each["action"] == "compute":
                nbytes = message.get("nbytes") or 0
                self.tasks.rows.append([self._keys[message["key"]], number, start, took, nbytes])
            elif each["action"] == "transfer":
                self.transfers.rows.append([number, start, took])
