"""What a backend is to the recorder. A third party's keeps the same contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pytest_schedprof.model.profile import Profile

if TYPE_CHECKING:
    from pytest_schedprof.clusters.contract import Target

Setting: TypeAlias = bool | int | float | str | list[str] | None

ALL_TARGETS = frozenset({"scheduler", "workers", "client"})

Namer: TypeAlias = Callable[[list[tuple[str, str, int]]], Sequence[str]]
"""Gives `module:qualname` for each (file, name, line) of a frame."""


@dataclass(frozen=True, slots=True)
class RawProfile:
    """What a recording brought back, before it is read."""

    content: bytes
    warnings: tuple[str, ...] = ()
    doubt: str = ""
    """Why no limit can be judged by it, where only the recording knows; else empty."""


class Recording(Protocol):
    """A backend at work on one target."""

    def stop(self, *, timeout_s: float) -> RawProfile:
        """End the recording, fetch what it saw and leave nothing behind.

        Raises:
            RecordingError: if nothing usable came back.
            SchedulerLostError: if the scheduler is gone.
        """

    def abandon(self, *, timeout_s: float) -> None:
        """End the recording and throw away what it saw."""


class Backend(Protocol):
    """A tool that can observe a process, with its options fixed."""

    name: str
    drift: float
    """Standard deviation of a share between identical windows, in units of sqrt(p (1 - p));
    0 for a backend that does not sample."""
    targets: frozenset[str]
    """Kinds of processes that it can observe: `scheduler`, perhaps `workers` and `client`."""
    sees_threads: bool
    """Whether it observes all threads of the process, and not only the one that runs the agent: the
    event loop's, but in the test's own process the main one, whichever runs a scheduler there."""
    disturbs: bool
    """Whether it slows the scheduler down or takes a hook of the interpreter. Such a backend
    records alone: the body of the test is run once more for it."""

    @property
    def suffix(self) -> str:
        """Ending of its artifacts, as in `scheduler.<suffix>`."""

    @property
    def metrics(self) -> frozenset[str]:
        """Metrics that a limit can judge by its profiles."""

    @property
    def mode(self) -> str:
        """Options that change what a sample means; empty for the defaults."""

    @property
    def settings(self) -> Mapping[str, Setting]:
        """All options, for the record."""

    def start(self, target: Target, *, timeout_s: float) -> Recording:
        """Begin to record; returns when it is proven that the target is being observed.

        Raises:
            BackendNotInstalledError: with the command that installs it.
            BackendNotPermittedError: with what to permit.
            RecordingError: if it does not come to work for another reason.
        """

    def read(self, content: bytes, namer: Namer) -> Profile:
        """Parse what a recording brought back.

        Raises:
            FormatError: if it is not what this backend writes.
        """

    def extras(self, content: bytes) -> Mapping[str, bytes]:
        """Further artifacts that can be made of a recording, by the endings of their names."""


def side_by_side(backends: Sequence[Backend]) -> list[tuple[Backend, ...]]:
    """What records together: one that disturbs the scheduler does so alone."""
    calm = tuple(backend for backend in backends if not backend.disturbs)
    alone = [(backend,) for backend in backends if backend.disturbs]
    return [each for each in (calm, *alone) if each]


class BackendFactory(Protocol):
    """Makes a backend from the options that the user gave; usually the class itself."""

    def __call__(
        self, *, rate_hz: float, options: Mapping[str, object], patterns: Sequence[str]
    ) -> Backend:
        """Make one for a test.

        Args:
            rate_hz: samples per second, for a backend that samples.
            options: as the user gave them.
            patterns: functions that the test's limits speak of, as `module:qualname` with
                wildcards.

        Raises:
            SettingsError: for an option that is unknown or malformed.
        """
