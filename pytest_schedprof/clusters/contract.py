"""The interface of a cluster, and what a test asks for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from pytest_schedprof.control.control import Control
from pytest_schedprof.control.reachability import open_line


class ClusterSpec(Struct, frozen=True):
    """The cluster that a test asks for; tests with equal specifications share one cluster."""

    kind: str
    """A name in `clusters/__init__.py`, or the address of a scheduler that runs already."""
    workers: int = 0
    threads: int = 1
    options: tuple[tuple[str, str], ...] = ()
    interpreter: str = ""
    """Path of another interpreter for the cluster's processes; empty for this one."""
    launcher: tuple[str, ...] = ()
    """Command that starts the interpreter of the scheduler; see `Backend.launcher`."""


class ClusterRequest(Struct, frozen=True):
    """The settings of a test that are about its cluster."""

    kind: str
    workers: int | None
    """None for the kind's default, or for those of a recorded workload."""
    threads: int | None
    options: tuple[tuple[str, str], ...]
    timeout_s: float
    chosen: frozenset[str] = frozenset()
    """Names of the settings that a marker of the test gives."""
    launcher: tuple[str, ...] = ()
    """Command that the test's backend needs its scheduler to be started by."""


class Cluster(ABC):
    """A scheduler under test and its workers.

    `clusters/__init__.py` describes the kinds that can be started.
    """

    address: str
    """Where the scheduler listens."""
    security: Any
    """What a client needs to connect to it, None for nothing."""
    options: Mapping[str, str] = MappingProxyType({})
    """Its options, as they were given."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """Name of its kind, as records have it."""

    @property
    @abstractmethod
    def is_ours(self) -> bool:
        """Whether it was started here, and nobody else uses it."""

    @classmethod
    @abstractmethod
    def start(cls, spec: ClusterSpec, *, timeout_s: float) -> Cluster:
        """Start it, or connect to the one that the specification names.

        Raises:
            ClusterError: if it is not ready in time.
            SettingsError: for an option that cannot be used.
        """

    @abstractmethod
    def death(self, patience_s: float = 0) -> str | None:
        """Return how the scheduler ended, or None while it lives or where this cannot be known.

        Connections of a killed process break before the process is seen to end. A caller that
        lost one should wait a little for the reason.
        """

    def watch(self, patience_s: float) -> None:
        """See to it that it ends if its scheduler stands still for so long, in real time.

        The default does nothing, where the scheduler's process is somebody else's.
        """
        return

    def open_line(self, timeout_s: float) -> Control:
        """Connect the recorder's own line to the scheduler.

        Raises:
            SchedulerLostError: if no scheduler answers.
        """
        return open_line(self.address, self.security, timeout_s)

    def begin_test(self) -> None:
        """Prepare for a test, whose client connects next. The default does nothing."""
        return

    def begin_round(self) -> None:
        """Prepare for a round, which begins now. The default does nothing."""
        return

    def log(self) -> bytes:
        """Return the scheduler's log, or its end; empty where it is not kept here."""
        return b""

    @abstractmethod
    def is_whole(self) -> bool:
        """Return whether the next test can use it as it is."""

    @abstractmethod
    def close(self) -> None:
        """End what was started here; no process is left, whatever state it is in."""
