"""Messages in which a hollow worker describes itself: registration and heartbeat metrics."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from distributed.metrics import time
from distributed.versions import get_versions

from pytest_schedprof.simulation.spilling import SpilledData

if TYPE_CHECKING:
    from pytest_schedprof.simulation.worker import HollowWorker

IO = {"read_bps": 0.0, "write_bps": 0.0}
SPILLED = {"memory": 0, "disk": 0}
NOTHING: dict[str, Any] = {}
NO_TRANSFERS = {
    f"{way}_{what}": 0
    for way in ("incoming", "outgoing")
    for what in ("bytes", "count", "count_total")
}
BASE_MEMORY = 100_000_000
"""Memory of a worker that holds no results."""


@cache
def versions() -> dict[str, Any]:
    """Return the versions of packages, cached: the lookup takes half of a worker's start."""
    return dict(get_versions())


def introduction(worker: HollowWorker) -> dict[str, Any]:
    """Return the message that registers a worker with the scheduler."""
    return {
        "op": "register-worker",
        "reply": False,
        "address": worker.address,
        "server_id": worker.server_id,
        "name": worker.name,
        "status": "running",
        "nthreads": worker.nthreads,
        "memory_limit": worker.memory_limit,
        "resources": {},
        "local_directory": "",
        "services": {},
        "nanny": None,
        "extra": {},
        "pid": os.getpid(),
        "versions": versions(),
        "now": time(),
        "stimulus_id": f"worker-connect-{time()}",
        "metrics": metrics(worker),
    }


def metrics(worker: HollowWorker) -> dict[str, Any]:
    """Return the metrics of a heartbeat; figures of real work are zero or constant.

    What is the same for all workers is shared: the scheduler keeps the last metrics of each.
    """
    nbytes = worker.state.nbytes if worker.has_state else 0
    on_disk = _on_disk(worker)
    return {
        "task_counts": _task_counts(worker),
        "bandwidth": _bandwidth(worker.server.behaviour.bandwidth),
        "digests_total_since_heartbeat": NOTHING,
        "managed_bytes": nbytes,
        "spilled_bytes": {"memory": on_disk, "disk": on_disk} if on_disk else SPILLED,
        "transfer": _transfer(worker),
        "event_loop_interval": 0.02,
        "cpu": 0.0,
        "memory": BASE_MEMORY + nbytes - on_disk,
        "num_fds": 10,
        "time": time(),
        "host_net_io": IO,
        "host_disk_io": IO,
    }


def _on_disk(worker: HollowWorker) -> int:
    data = worker.state.data if worker.has_state else None
    return data.on_disk if isinstance(data, SpilledData) else 0


def _task_counts(worker: HollowWorker) -> Any:
    if not worker.has_state:
        return NOTHING
    return worker.state.task_counter.current_count(by_prefix=False)


def _transfer(worker: HollowWorker) -> dict[str, int]:
    if not (worker.has_state and worker.state.transfer_incoming_count_total):
        return NO_TRANSFERS
    return {
        **NO_TRANSFERS,
        "incoming_bytes": worker.state.transfer_incoming_bytes,
        "incoming_count": worker.state.transfer_incoming_count,
        "incoming_count_total": worker.state.transfer_incoming_count_total,
    }


@cache
def _bandwidth(total: float) -> dict[str, Any]:
    return {"total": total, "workers": NOTHING, "types": NOTHING}
