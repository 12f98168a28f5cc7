"""How large a change must be, and how sure, before it counts: one table."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_schedprof.model.calibration import Calibration


@dataclass(frozen=True, slots=True)
class Policy:
    """What is asked of a change before it is called one."""

    exact_rise: float = 0.01
    """Calls and bytecodes per task, as a part of what they were."""
    cpu_rise: float = 0.05
    """CPU time per task, as a part of what it was."""
    share_rise: float = 0.02
    """A share, as a difference."""
    alpha: float = 0.01
    """How often a comparison of identical code may call anything a regression: for all timed
    figures of one test taken together."""
    seen_from: float = 0.02
    """Functions that hold less before and after are not looked at: what they gained is less than
    a rise that counts, and each more makes all others harder to decide."""
    calibrations: tuple[Calibration, ...] = ()
    """How far figures were measured to stray on machines; elsewhere constants are taken."""


DEFAULT_POLICY = Policy()
