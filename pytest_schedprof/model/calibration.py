"""The record of calibrations, calibration.json: how much figures vary when nothing changed."""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA_VERSION = 1
"""Incremented when a reader of old records would misread a new one."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A measured standard deviation between identical windows."""

    value: float
    at_most: float
    """Upper bound, at the confidence level of all bounds."""
    freedom: float
    """Degrees of freedom of the measurement; with few of them the bound is loose."""

    def instead_of(self, constant: float) -> float:
        """Return the value to use on this machine instead of a constant.

        It is below the constant only as far as the upper bound is, and never below `value`.
        """
        return max(self.value, min(self.at_most, constant))


@dataclass(frozen=True, slots=True)
class Alarms:
    """How often a comparison of identical code reported a regression."""

    rounds: int
    """Number of windows in each measurement."""
    comparisons: int
    alarms: int
    at_most: float
    """Upper bound of the rate, at the confidence level of all bounds."""


@dataclass(frozen=True, slots=True)
class Detectable:
    """The smallest change that a comparison detects in 95 of 100 cases."""

    metric: str
    share: float
    """Share of the functions that it applies to; 0 for the scheduler as a whole."""
    rounds: int
    """Rounds on each side; 1 is one long window."""
    change: float | None
    """Relative change, or the difference of a share; None if no change is detected reliably."""


@dataclass(frozen=True, slots=True)
class Unsteady:
    """A function whose counts per task differed between windows."""

    metric: str
    function: str
    scatter: float
    """Standard deviation as a fraction of the mean."""
    part: float
    """The function's fraction of the total count."""


@dataclass(frozen=True, slots=True)
class BackendCalibration:
    """Repeated measurements of the same work by one backend."""

    backend: str
    mode: str
    windows: int
    tasks: int
    """Tasks in one window."""
    seconds: float
    """Duration of one window, with its overhead."""
    samples: float
    """Busy samples of one window; 0 if the backend does not sample."""
    cpu: Spread | None
    """Spread of the CPU time per task, as a fraction; None if the backend does not sample."""
    drift: Spread | None
    """Spread of shares beyond sampling error, in units of sqrt(p (1 - p))."""
    alarms: tuple[Alarms, ...]
    detectable: tuple[Detectable, ...]
    functions: int
    """Number of functions counted; 0 if the backend does not count."""
    unsteady: tuple[Unsteady, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Measurements on one machine at one time."""

    machine: str
    """Model and number of the processors."""
    python: str
    """Minor version of the scheduler's Python."""
    cluster: str
    """Kind of the cluster: real workers affect a scheduler differently than hollow ones."""
    workers: int
    workload: str
    measured_at: str
    seconds: float
    """Time budget of the calibration."""
    clusters: int
    """Number of clusters, started one after the other."""
    distributed: str
    schedprof_version: str
    backends: tuple[BackendCalibration, ...]

    @property
    def place(self) -> tuple[str, str, str]:
        """Machine, Python and cluster of figures that the calibration applies to."""
        return self.machine, self.python, self.cluster


@dataclass(frozen=True, slots=True)
class Calibrations:
    """calibration.json: the last few calibrations of each place."""

    calibrations: tuple[Calibration, ...]
    """Sorted by time, the newest last."""
    schema_version: int = SCHEMA_VERSION
