"""A scheduler that runs already, by its address or by what a user's fixture returned."""

from __future__ import annotations

from typing import Any

from pytest_schedprof.clusters.contract import Cluster, ClusterSpec
from pytest_schedprof.errors import ClusterError

NOT_RUNNING = ("newly-created", "connecting", "created", "starting", "closing", "closed", "failed")
"""Statuses of clients and clusters that cannot be used yet, or not any more."""


class AttachedCluster(Cluster):
    """Somebody else's cluster: used, never ended."""

    kind = "attached"
    is_ours = False

    def __init__(self, address: str, security: Any = None) -> None:
        self.address = address
        self.security = security

    @classmethod
    def start(cls, spec: ClusterSpec, *, timeout_s: float) -> AttachedCluster:
        return cls(spec.kind)

    def death(self, patience_s: float = 0) -> str | None:
        return None  # the process is not known here, only a lost connection shows its end

    def is_whole(self) -> bool:
        return True

    def close(self) -> None:
        return  # its owner closes it


def as_cluster(value: Any) -> Cluster:
    """Wrap what a `schedprof_cluster` fixture returned: a cluster, client or address of dask's.

    Raises:
        ClusterError: for anything else, or if it is not connected.
    """
    if isinstance(value, str):
        return AttachedCluster(value)
    if isinstance(value, Cluster):
        return value
    scheduler = getattr(value, "scheduler", None)
    address = getattr(value, "scheduler_address", None) or getattr(scheduler, "address", None)
    status = getattr(value, "status", None)
    status = getattr(status, "name", status)  # dask-gateway has a string, others an enumeration
    if status in NOT_RUNNING or address == "<Not Connected>":
        raise ClusterError(
            f"schedprof: the fixture schedprof_cluster returned {value!r}, which is not connected "
            f"to a scheduler (its status is {status!r}); return one that is started and not "
            "closed: with `await`, if it is asynchronous"
        )
    if not address:
        raise ClusterError(
            f"schedprof: the fixture schedprof_cluster returned {value!r}; return a dask "
            "Cluster, a Client, or a scheduler's address such as 'tcp://127.0.0.1:8786'"
        )
    return AttachedCluster(str(address), getattr(value, "security", None))
