"""Findings of `schedprof doctor` about this machine, a scheduler, and each backend there."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_schedprof.model.privileges import Privileges


@dataclass(frozen=True, slots=True)
class Machine:
    """A process and the machine that it runs on."""

    pid: int
    uid: int
    user: str
    """User name, empty if the user ID has none."""
    python: str
    implementation: str
    interpreter: str
    platform: str
    versions: dict[str, str]
    tick_hz: float
    """Frequency of the kernel's clock; 0 if unknown."""
    directory: str
    """Directory of files: of recordings on a scheduler, of artifacts here."""
    free_bytes: int


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """How far the scheduler's clock is ahead of the clock here."""

    seconds: float
    uncertainty: float
    """Half of the round trip of the measurement, which is its largest error."""


@dataclass(frozen=True, slots=True)
class BackendCheck:
    """Whether a recording of one backend could be started, stopped and read."""

    name: str
    is_chosen: bool
    works: bool
    seconds: float
    reason: str = ""
    remedies: tuple[str, ...] = ()
    rank: int | None = None
    """Position in the order in which backends are recommended; None for one that never is."""
    notes: dict[str, str] = field(default_factory=dict)
    """What a fact about the scheduler means for the backend, by the name of the fact."""
    kept_hz: float | None = None
    """Samples per second that it keeps up with on a busy scheduler; None if not measured."""


@dataclass(frozen=True, slots=True)
class Checkup:
    """All findings."""

    address: str
    is_own: bool
    """Whether the scheduler was started for the check."""
    here: Machine
    scheduler: Machine
    workers: int
    loop_in_main_thread: bool
    privileges: Privileges
    clock: ClockOffset
    differences: tuple[str, ...]
    """Differences between both sides, in words."""
    backends: tuple[BackendCheck, ...]

    @property
    def works(self) -> bool:
        """Whether all chosen backends work."""
        return all(each.works for each in self.backends if each.is_chosen)
