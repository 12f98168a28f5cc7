"""Compute the smallest change that a comparison detects, from the tests that it makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import hypot, sqrt

from pytest_schedprof.analysis.estimate import MIN_ROUNDS
from pytest_schedprof.analysis.student import MANY, critical
from pytest_schedprof.comparison.policy import Policy
from pytest_schedprof.model.calibration import Detectable
from pytest_schedprof.model.metric import CPU, SHARE

MISSED = 0.05
"""Probability that a change of that size is missed."""

LARGEST, STEPS = 100.0, 40
"""Largest rise that is tried, as a fraction, and steps of the bisection below it."""

LEVELS = (0.05, 0.2, 0.5)
"""Shares of functions for which the smallest change is computed."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard errors of one side, with their degrees of freedom."""

    rounds: int
    cpu: float
    """Standard error of the CPU time per task, as a fraction of it."""
    share: float
    """Standard error of a share, in units of sqrt(p (1 - p))."""
    beforehand: int = MANY
    """Degrees of freedom of the scatter of CPU time between single windows, from a calibration."""

    @property
    def of_share(self) -> int:
        """Degrees of freedom of a share: the smallest that Welch gives for two such sides."""
        return self.rounds - 1 if self.rounds >= MIN_ROUNDS else MANY

    @property
    def of_cpu(self) -> int:
        """Degrees of freedom of the CPU time; a single window has the calibration's."""
        return self.rounds - 1 if self.rounds >= MIN_ROUNDS else self.beforehand


def detectable(noise: Noise, family: int, policy: Policy) -> Iterator[Detectable]:
    """Yield the smallest detectable changes of the CPU time and of functions' shares.

    Args:
        noise: standard errors of each side.
        family: number of figures that are tested together.
        policy: thresholds of the comparison.
    """
    bar = _Bar(noise, policy, policy.alpha / max(1, family))  # as if one figure rises alone
    yield Detectable(CPU, 0.0, noise.rounds, _smallest(bar.sees_cpu))
    for level in LEVELS:
        dearer = _smallest(partial(bar.sees_share, level))
        change = None if dearer is None else _share_after(level, dearer) - level
        yield Detectable(SHARE, level, noise.rounds, change)


def _smallest(is_seen: Callable[[float], bool]) -> float | None:
    """Return the smallest rise that is detected, by bisection; None if none is."""
    low, high = 0.0, LARGEST
    if not is_seen(high):
        return None
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_seen(middle) else (middle, high)
    return high


def _share_after(level: float, dearer: float) -> float:
    """Share of a function after its cost rose, which makes the whole larger too."""
    return level * (1 + dearer) / (1 + level * dearer)


@dataclass(frozen=True)
class _Bar:
    """The tests that a change must pass, as in `comparison/timed.py`."""

    noise: Noise
    policy: Policy
    alone: float
    """Largest p value of one figure of the family."""

    def sees_cpu(self, rise: float) -> bool:
        """Whether a rise of the CPU time, as a fraction of it, is detected."""
        error = self.noise.cpu * hypot(1, 1 + rise)
        return self._sees(rise, error, self.alone, self.policy.cpu_rise, self.noise.of_cpu)

    def sees_share(self, level: float, dearer: float) -> bool:
        """Whether a rise of a function's cost is detected, in its share and in its CPU time."""
        cpu, after = 1 + level * dearer, _share_after(level, dearer)
        typical = (level + after) / 2
        of_share = sqrt(2 * typical * (1 - typical)) * self.noise.share
        of_cost = hypot(of_share * (1 + cpu) / 2, self.noise.cpu * hypot(1, cpu) * typical)
        policy, of_both = self.policy, min(self.noise.of_share, self.noise.of_cpu)
        return self._sees(
            after - level, of_share, self.alone, policy.share_rise, self.noise.of_share
        ) and self._sees(level * dearer, of_cost, policy.alpha, policy.cpu_rise * level, of_both)

    def _sees(self, rise: float, error: float, chance: float, needed: float, freedom: int) -> bool:
        """Whether a rise is significant and large enough with a probability of 1 - MISSED."""
        least = rise - critical(MISSED, freedom) * error
        return least >= max(critical(chance, freedom) * error, needed)
