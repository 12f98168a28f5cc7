"""The smallest change that a comparison finds, by the tests that it makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import hypot, sqrt

from pytest_schedprof.analysis.estimate import MIN_ROUNDS
from pytest_schedprof.analysis.student import MANY, critical
from pytest_schedprof.comparison.policy import Policy
from pytest_schedprof.model.calibration import Detectable

MISSED = 0.05
"""Part of such changes that is not found."""

LARGEST, STEPS = 100.0, 40
"""What is not seen of a hundred times as much is never seen; and steps of the search for less."""

LEVELS = (0.05, 0.2, 0.5)
"""Shares of functions whose change is told."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard errors of one side, with their degrees of freedom."""

    rounds: int
    cpu: float
    """Of the CPU time per task, as a fraction of it."""
    share: float
    """Of a share, in units of sqrt(p (1 - p))."""
    beforehand: int = MANY
    """Degrees of freedom with which the scatter of single windows' CPU time was measured."""

    @property
    def of_share(self) -> int:
        """The least that Welch finds of two sides; blocks of time show that of a single window."""
        return self.rounds - 1 if self.rounds >= MIN_ROUNDS else MANY

    @property
    def of_cpu(self) -> int:
        """The same of CPU time, of which a single window shows no scatter."""
        return self.rounds - 1 if self.rounds >= MIN_ROUNDS else self.beforehand


def detectable(noise: Noise, family: int, policy: Policy) -> Iterator[Detectable]:
    """Of the whole and of functions, where so many figures are compared with each other."""
    bar = _Bar(noise, policy, policy.alpha / max(1, family))  # as of one that rises alone
    yield Detectable("cpu", 0.0, noise.rounds, _smallest(bar.sees_cpu))
    for level in LEVELS:
        dearer = _smallest(partial(bar.sees_share, level))
        change = None if dearer is None else _share_after(level, dearer) - level
        yield Detectable("share", level, noise.rounds, change)


def _smallest(is_seen: Callable[[float], bool]) -> float | None:
    """The least rise that is seen, by bisection."""
    low, high = 0.0, LARGEST
    if not is_seen(high):
        return None
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_seen(middle) else (middle, high)
    return high


def _share_after(level: float, dearer: float) -> float:
    """A function that costs more also makes the whole larger, of which it holds a part."""
    return level * (1 + dearer) / (1 + level * dearer)


@dataclass(frozen=True)
class _Bar:
    """What a change must get over: as `comparison/timed.py` has it."""

    noise: Noise
    policy: Policy
    alone: float
    """How small a chance must be, for one figure of the family."""

    def sees_cpu(self, rise: float) -> bool:
        """Of the whole, as a part of what it was."""
        error = self.noise.cpu * hypot(1, 1 + rise)
        return self._sees(rise, error, self.alone, self.policy.cpu_rise, self.noise.of_cpu)

    def sees_share(self, level: float, dearer: float) -> bool:
        """Of a function that costs so much more: its share, and its CPU time (one test alone)."""
        cpu, after = 1 + level * dearer, _share_after(level, dearer)
        typical = (level + after) / 2
        of_share = sqrt(2 * typical * (1 - typical)) * self.noise.share
        of_cost = hypot(of_share * (1 + cpu) / 2, self.noise.cpu * hypot(1, cpu) * typical)
        policy, of_both = self.policy, min(self.noise.of_share, self.noise.of_cpu)
        return self._sees(
            after - level, of_share, self.alone, policy.share_rise, self.noise.of_share
        ) and self._sees(level * dearer, of_cost, policy.alpha, policy.cpu_rise * level, of_both)

    def _sees(self, rise: float, error: float, chance: float, needed: float, freedom: int) -> bool:
        """Whether what is seen of it is no chance and large enough, but in few cases."""
        least = rise - critical(MISSED, freedom) * error
        return least >= max(critical(chance, freedom) * error, needed)
