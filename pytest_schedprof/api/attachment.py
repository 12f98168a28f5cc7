"""Attach to the scheduler of the caller's client."""

from __future__ import annotations

from distributed import Client

from pytest_schedprof.clusters.attached import AttachedCluster
from pytest_schedprof.errors import ClusterError, SettingsError
from pytest_schedprof.remote.control import Control


def connected(client: Client | None) -> Client:
    """Return the client, or the current one, if it is connected.

    Raises:
        ClusterError: if there is no client, or it is not connected.
    """
    if client is None:
        try:
            client = Client.current()
        except ValueError:
            raise ClusterError(
                "schedprof: there is no current dask client; create one first "
                "(`client = distributed.Client()`), or pass client="
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
    """The scheduler of a client, with a control line of our own to it."""

    def __init__(self, client: Client, *, timeout_s: float) -> None:
        assert client.scheduler is not None  # checked by `connected`
        super().__init__(str(client.scheduler.address), client.security)
        self.control = Control(self.address, security=self.security, timeout_s=timeout_s)

    def death(self, patience_s: float = 0) -> str | None:
        """Say that the control line broke, which it does at once when the scheduler dies."""
        if self.control.is_up:
            return None
        return f"the line to the scheduler {self.address} broke: it died or was closed"

    def close(self) -> None:
        """Close the control line; the cluster belongs to the caller."""
        self.control.close()
