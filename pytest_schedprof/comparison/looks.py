"""Rounds on two schedulers in turns: in which order, and after how many to look at them.

Each look at the data is a chance to be wrong. So looks come after so many pairs of rounds, twice
as many, and so on, and share what may go wrong among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import TypeVar

from pytest_schedprof.comparison.policy import Policy

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Looks:
    """A plan for one test."""

    first_look: int
    """After how many pairs; fewer show no scatter."""
    budget_s: float

    @staticmethod
    def order(sides: Sequence[T], pair: int) -> Iterator[T]:
        """A B, B A, A B, ...: what drifts meets both alike."""
        return iter(sides) if pair % 2 else reversed(sides)

    def is_look(self, pairs: int) -> bool:
        """Whether it is time to see if the data decides."""
        times, rest = divmod(pairs, self.first_look)
        return times > 0 and not rest and not times & (times - 1)  # a power of two

    def has_time_for_more(self, pairs: int, elapsed_s: float) -> bool:
        """Whether another pair would end within the budget."""
        return elapsed_s * (pairs + 1) <= self.budget_s * pairs

    def policy(self, policy: Policy, pairs: int, elapsed_s: float) -> Policy:
        """With its share of what may go wrong, by the looks that the budget has room for."""
        most = max(pairs, int(self.budget_s * pairs / max(elapsed_s, 1e-3)))
        looks = 1 + max(0, ceil(log2(most / self.first_look)))
        return replace(policy, alpha=policy.alpha / looks)
