"""What every kind of cluster can do for the recorder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """What a test asks for; equal specs share one cluster."""

    kind: str
    """`local`, `simulated`, `docker`, or the address of a scheduler that runs already."""
    workers: int = 0
    threads: int = 1
    options: tuple[tuple[str, str], ...] = ()
    interpreter: str = ""
    """Path of another one for the processes of a cluster of our own; empty for this one."""


class Target(Protocol):
    """A process that a backend observes: the scheduler, a worker's, or the client's."""

    kind: str
    """`scheduler`, `workers` or `client`."""
    name: str
    """Begin of its artifacts' names."""
    addresses: tuple[str, ...]
    """Of the workers in it."""

    @property
    def label(self) -> str:
        """What messages call it, with its address: `the scheduler tcp://...`."""

    @property
    def client_id(self) -> str:
        """Name by which the scheduler knows who asks."""

    def call(self, function: Callable[..., Any], *args: Any, timeout_s: float | None = None) -> Any:
        """Run an agent's function there and return its answer.

        Raises:
            SchedulerLostError: if the scheduler is gone.
            RecordingError: if the function failed, or the target is gone.
        """


class Cluster(Protocol):
    """A scheduler under test and its workers."""

    kind: str
    address: str
    security: Any
    is_ours: bool
    """Whether it was started here, and nobody else uses it."""

    def death(self, patience_s: float = 0) -> str | None:
        """How the scheduler ended, None while it lives or where this cannot be known.

        A process that was killed loses its connections before it is seen to end: who lost
        one should wait a little for the reason.
        """

    def is_whole(self) -> bool:
        """Whether the next test can use it as it stands."""

    def close(self) -> None:
        """End what was started here; no process is left, whatever state it is in."""
