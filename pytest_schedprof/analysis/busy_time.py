"""CPU time behind samples of a clock, some of which show a thread that waits for a processor.

A thread that could run but has no processor looks like one that computes. On a busy machine the
samples by the clock therefore stand for more time than the CPU time of the scheduler. The rest was
waited in any of the functions: most often where a worker is woken, in `send`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_schedprof.model.verdict import Estimate

MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class BusyTime:
    """What all busy samples stand for, in microseconds per task."""

    cpu: float
    wall: float
    """By the clock; 0 where samples were taken at steps of CPU time, or where nobody knows."""

    @property
    def waited(self) -> float:
        """Time that threads waited for a processor."""
        return max(0.0, self.wall - self.cpu)

    @property
    def waited_part(self) -> float:
        """The same as a part of the clock's time."""
        return self.waited / self.wall if self.wall else 0.0

    def bounds(self, share: Estimate) -> tuple[float, float]:
        """Return the least and the most CPU time of what has that share of the samples."""
        if not self.waited:
            return share.low * self.cpu, share.high * self.cpu
        low = max(0.0, share.low * self.wall - self.waited)
        return low, min(share.high * self.wall, self.cpu)

    def widened(self, share: Estimate, cost: Estimate) -> Estimate:
        """Return a cost whose bounds hold wherever it was that the threads waited."""
        if not self.waited:
            return cost
        low, high = self.bounds(share)
        return replace(cost, low=min(cost.low, low), high=max(cost.high, high))


def wall_of(samples: int, seconds: float, tasks: int) -> float:
    """Return the microseconds per task that samples stand for."""
    return samples * seconds * MICROSECONDS / max(1, tasks)
