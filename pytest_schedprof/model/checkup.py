"""What `schedprof doctor` found: of this machine, of a scheduler, and of each backend there."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_schedprof.diagnosis.privileges import Privileges


@dataclass(frozen=True, slots=True)
class Machine:
    """A process and where it runs."""

    pid: int
    uid: int
    user: str
    """Empty where the number has no name."""
    python: str
    implementation: str
    interpreter: str
    platform: str
    versions: dict[str, str]
    tick_hz: float
    """Of the kernel's clock; 0 where it is not known."""
    directory: str
    """Where files are kept: recordings on a scheduler, artifacts here."""
    free_bytes: int


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """By how much the scheduler's clock is ahead of the one here."""

    seconds: float
    uncertainty: float
    """Half of the round trip it was measured by: the truth is within as much on either side."""


@dataclass(frozen=True, slots=True)
class BackendCheck:
    """Whether a recording could be started, stopped and read."""

    name: str
    is_chosen: bool
    works: bool
    seconds: float
    reason: str = ""
    remedies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkup:
    """All of it."""

    address: str
    is_own: bool
    """Whether the scheduler was started for it."""
    here: Machine
    scheduler: Machine
    workers: int
    loop_in_main_thread: bool
    privileges: Privileges
    clock: ClockOffset
    differences: tuple[str, ...]
    """What is not the same on both sides, in words."""
    backends: tuple[BackendCheck, ...]

    @property
    def works(self) -> bool:
        """Whether all chosen backends do."""
        return all(each.works for each in self.backends if each.is_chosen)
