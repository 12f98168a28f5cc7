"""The interface of a process that the agent can run in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Target(Protocol):
    """A process that a backend observes: the scheduler, a worker's, or the client's."""

    kind: str
    """`scheduler`, `workers` or `client`."""
    name: str
    """Prefix of its artifacts' names."""
    addresses: tuple[str, ...]
    """Addresses of the workers in the process."""

    @property
    def label(self) -> str:
        """Name for messages, with its address: `the scheduler tcp://...`."""

    @property
    def client_id(self) -> str:
        """Name of the asking client on the scheduler."""

    def call(self, function: Callable[..., Any], *args: Any, timeout_s: float | None = None) -> Any:
        """Run an agent's function in the process and return its answer.

        Raises:
            SchedulerLostError: if the scheduler is gone.
            RecordingError: if the function failed, or the target is gone.
        """
