"""How far figures stray on a machine where nothing changed, as kept in calibration.json."""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA_VERSION = 1
"""Raised when a reader of the old records would misread a new one."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A standard deviation between identical windows, as it was measured."""

    value: float
    at_most: float
    """It is at most this, at the confidence level of all bounds."""
    freedom: float
    """Degrees of freedom of the measurement: with few of them the bound is far off."""

    def instead_of(self, constant: float) -> float:
        """What to reckon with on this machine, where otherwise a constant is taken.

        Less than the constant only as far as that is sure, and never less than was measured.
        """
        return max(self.value, min(self.at_most, constant))


@dataclass(frozen=True, slots=True)
class Alarms:
    """How often a comparison of identical code called anything a regression."""

    rounds: int
    """So many windows were one measurement."""
    comparisons: int
    alarms: int
    at_most: float
    """The rate is at most this, at the confidence level of all bounds."""


@dataclass(frozen=True, slots=True)
class Detectable:
    """The smallest change that a comparison finds in 95 of 100 cases."""

    metric: str
    share: float
    """Of functions that hold so much; 0 for the scheduler as a whole."""
    rounds: int
    """On each side; 1 is one long window."""
    change: float | None
    """Relative to what it was; of a share, the difference. None if none is ever sure."""


@dataclass(frozen=True, slots=True)
class Unsteady:
    """A function whose counts per task were not the same in all windows."""

    metric: str
    function: str
    scatter: float
    """Standard deviation, as a fraction."""
    part: float
    """Of all that was counted."""


@dataclass(frozen=True, slots=True)
class BackendCalibration:
    """What one backend measured of the same work, again and again."""

    backend: str
    mode: str
    windows: int
    tasks: int
    """Of one window."""
    seconds: float
    """What one window took, with all that is around it."""
    samples: float
    """Busy ones of one window; 0 of a backend that does not sample."""
    cpu: Spread | None
    """Of the CPU time per task, as a fraction; None of a backend that does not sample."""
    drift: Spread | None
    """Of shares beyond what sampling explains, in units of sqrt(p (1 - p))."""
    alarms: tuple[Alarms, ...]
    detectable: tuple[Detectable, ...]
    functions: int
    """How many were counted; 0 of a backend that does not count."""
    unsteady: tuple[Unsteady, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured on one machine at one time."""

    machine: str
    """Model and number of the processors."""
    python: str
    """Minor version of the scheduler's Python."""
    cluster: str
    """Kind of the cluster: real workers disturb a scheduler otherwise than hollow ones."""
    workers: int
    workload: str
    measured_at: str
    seconds: float
    """Time that was given."""
    clusters: int
    """How many were started, one after the other."""
    distributed: str
    schedprof_version: str
    backends: tuple[BackendCalibration, ...]

    @property
    def place(self) -> tuple[str, str, str]:
        """What figures must have been measured on for this to speak of them."""
        return self.machine, self.python, self.cluster


@dataclass(frozen=True, slots=True)
class Calibrations:
    """calibration.json: of each place the last few."""

    calibrations: tuple[Calibration, ...]
    """The newest last."""
    schema_version: int = SCHEMA_VERSION
