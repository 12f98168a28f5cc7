"""The scheduler of a client that the caller has."""

from __future__ import annotations

from distributed import Client

from pytest_schedprof.clusters.attached import AttachedCluster
from pytest_schedprof.clusters.control import Control
from pytest_schedprof.errors import ClusterError, SettingsError


def connected(client: Client | None) -> Client:
    """The client, or else the current one, if it is connected.

    Raises:
        ClusterError: if there is none, or it has no scheduler.
    """
    if client is None:
        try:
            client = Client.current()
        except ValueError:
            raise ClusterError(
                "schedprof: there is no dask client to find the scheduler by; make one first "
                "(`client = distributed.Client()`), or give client="
            ) from None
    if not isinstance(client, Client):
        raise SettingsError(f"schedprof: client must be a distributed.Client, got {client!r}")
    if client.scheduler is None or client.status != "running":
        raise ClusterError(
            f"schedprof: the client is not connected (its status is {client.status!r}); "
            "an asynchronous one must be awaited first"
        )
    return client


class Attachment(AttachedCluster):
    """The scheduler of a client, with a line of our own to it."""

    def __init__(self, client: Client, *, timeout_s: float) -> None:
        assert client.scheduler is not None  # `connected` has looked
        super().__init__(str(client.scheduler.address), client.security)
        self.control = Control(self.address, security=self.security, timeout_s=timeout_s)

    def death(self, patience_s: float = 0) -> str | None:
        """By the line, which ends with the scheduler; so nobody waits for answers of a dead one."""
        if self.control.is_up:
            return None
        return f"the line to the scheduler {self.address} broke: it died or was closed"

    def close(self) -> None:
        """Hang up; the cluster is its owner's."""
        self.control.close()
