"""A scheduler that runs already: by address, or as the cluster or client a user's fixture gives."""

from __future__ import annotations

from typing import Any

from pytest_schedprof.clusters.contract import Cluster
from pytest_schedprof.errors import ClusterError

NOT_RUNNING = ("newly-created", "connecting", "created", "starting", "closing", "closed", "failed")
"""What clients and clusters call themselves before they can be used, and after."""


class AttachedCluster:
    """Somebody else's cluster: used, never ended."""

    kind = "attached"
    is_ours = False

    def __init__(self, address: str, security: Any = None) -> None:
        self.address = address
        self.security = security

    def death(self, patience_s: float = 0) -> str | None:
        """Not known from here; a lost connection tells it."""
        return None

    def is_whole(self) -> bool:
        """Not known from here; its owner decides."""
        return True

    def close(self) -> None:
        """Its owner closes it."""


def as_cluster(value: Any) -> Cluster:
    """What a `schedprof_cluster` fixture may return, as a cluster: also anything of dask's."""
    if isinstance(value, str):
        return AttachedCluster(value)
    if all(hasattr(value, name) for name in ("kind", "address", "death", "close")):
        cluster: Cluster = value
        return cluster
    address = getattr(value, "scheduler_address", None) or _client_address(value)
    status = _status(value)
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


def _client_address(value: Any) -> str | None:
    return getattr(getattr(value, "scheduler", None), "address", None)


def _status(value: Any) -> str | None:
    """dask-gateway's is a word, that of others in an enumeration."""
    status = getattr(value, "status", None)
    return getattr(status, "name", status)
