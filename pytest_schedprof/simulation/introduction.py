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
        "nthreads": worker.state.nthreads,
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
    """Return the metrics of a heartbeat; figures of real work are zero or constant."""
    state = worker.state
    on_disk = state.data.on_disk if isinstance(state.data, SpilledData) else 0
    return {
        "task_counts": state.task_counter.current_count(by_prefix=False),
        "bandwidth": {"total": worker.server.behaviour.bandwidth, "workers": {}, "types": {}},
        "digests_total_since_heartbeat": {},
        "managed_bytes": state.nbytes,
        "spilled_bytes": {"memory": on_disk, "disk": on_disk},
        "transfer": {
            "incoming_bytes": state.transfer_incoming_bytes,
            "incoming_count": state.transfer_incoming_count,
            "incoming_count_total": state.transfer_incoming_count_total,
            "outgoing_bytes": 0,
            "outgoing_count": 0,
            "outgoing_count_total": 0,
        },
        "event_loop_interval": 0.02,
        "cpu": 0.0,
        "memory": BASE_MEMORY + state.nbytes - on_disk,
        "num_fds": 10,
        "time": time(),
        "host_net_io": IO,
        "host_disk_io": IO,
    }
