"""The default cluster: a scheduler in a process of its own, real workers in another."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from pytest_schedprof.clusters.child import Child

HOST = "127.0.0.1"


class LocalCluster:
    """Two processes on the loopback interface; the scheduler's loop is in its main thread."""

    kind = "local"
    security = None

    def __init__(self, workers: int, *, timeout_s: float) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="schedprof-cluster-"))
        self._children: list[Child] = []
        try:
            self._start(workers, time.monotonic() + timeout_s)
        except BaseException:
            self.close()
            raise

    def _start(self, workers: int, deadline: float) -> None:
        scheduler, worker = (
            Child(name, self._directory / f"{name}.log") for name in ("scheduler", "workers")
        )
        self._children = [worker, scheduler]
        scheduler_options = {
            "host": HOST,
            "port": 0,
            "dashboard": False,
            # The scheduler serves HTTP all the same, at a port of its own choice or a usual one.
            "dashboard_address": f"{HOST}:0",
            "local_directory": str(self._directory),
        }
        (self.address,) = scheduler.order(
            {"role": "scheduler", "options": scheduler_options}, deadline
        )
        self.pid = scheduler.process.pid
        if workers:
            worker.order(self._worker_order(workers), deadline)

    def _worker_order(self, workers: int) -> dict[str, object]:
        options = {
            "scheduler_ip": self.address,
            "host": HOST,
            "nthreads": 1,
            "dashboard": False,
            # All share a process, so none can tell its own memory from the others'.
            "memory_limit": 0,
            "local_directory": str(self._directory),
        }
        return {"role": "workers", "count": workers, "options": options}

    def death(self, patience_s: float = 0) -> str | None:
        """How the scheduler ended, with its last words."""
        scheduler = self._children[-1]
        death = scheduler.death(patience_s)
        return f"{death}; its log ends: {scheduler.last_words()}" if death else None

    def is_whole(self) -> bool:
        """Whether both processes run."""
        return not any(child.death() for child in self._children)

    def close(self) -> None:
        """End both processes and remove their files."""
        for child in self._children:
            child.hang_up()
        for child in self._children:
            child.reap()
        shutil.rmtree(self._directory, ignore_errors=True)
