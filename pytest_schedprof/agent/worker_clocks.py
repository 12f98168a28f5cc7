"""Reads how much CPU time a worker has used, and how much of it for the code of tasks."""

from __future__ import annotations

import time
from typing import Any

from .facts import process


def read_clocks(dask_worker: Any = None) -> dict[str, Any] | None:
    """Return CPU seconds of the process, and of tasks of this worker; None if it computes none."""
    measured = getattr(dask_worker, "digests_total", None)
    if measured is None:
        return None
    return {
        "process": [str(part) for part in process()],
        "used": time.process_time(),
        "execution": sum(seconds for name, seconds in measured.items() if _is_of_tasks(name)),
    }


def _is_of_tasks(name: Any) -> bool:
    is_of_task = isinstance(name, tuple) and name[:1] == ("execute",)
    return is_of_task and name[-2:] == ("thread-cpu", "seconds")
