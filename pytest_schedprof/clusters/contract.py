"""What every kind of cluster can do for the recorder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """What a test asks for; equal specs share one cluster."""

    kind: str
    """`local`, or the address of a scheduler that runs already."""
    workers: int


class Cluster(Protocol):
    """A scheduler under test and its workers."""

    kind: str
    address: str
    security: Any

    def death(self) -> str | None:
        """How the cluster ended, None while it lives or where this cannot be known."""

    def is_whole(self) -> bool:
        """Whether the next test can use it as it stands."""

    def close(self) -> None:
        """End what was started here; no process is left, whatever state it is in."""
