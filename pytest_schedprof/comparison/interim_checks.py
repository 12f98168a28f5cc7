"""Schedule of rounds on two schedulers in turns, and of the interim checks between them.

Each check of the data may raise a false alarm. So a check is made after so many pairs of rounds,
after twice as many, and so on, and the rate of false alarms is divided over the checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import TypeVar

from pytest_schedprof.comparison.policy import Policy

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InterimChecks:
    """Interim checks of one test."""

    first_check: int
    """Pairs of rounds before the first check; fewer cannot show the scatter."""
    budget_s: float

    @staticmethod
    def order(sides: Sequence[T], pair: int) -> Iterator[T]:
        """Order the sides as A B, B A, A B, ..., so that drift affects both alike."""
        return iter(sides) if pair % 2 else reversed(sides)

    def is_due(self, pairs: int) -> bool:
        """Whether a check is due after so many pairs."""
        times, rest = divmod(pairs, self.first_check)
        return times > 0 and not rest and not times & (times - 1)  # a power of two

    def has_time_for_more(self, pairs: int, elapsed_s: float) -> bool:
        """Whether another pair fits into the budget."""
        return elapsed_s * (pairs + 1) <= self.budget_s * pairs

    def policy(self, policy: Policy, pairs: int, elapsed_s: float) -> Policy:
        """Return the policy of one check: alpha is divided by the checks within the budget."""
        most = max(pairs, int(self.budget_s * pairs / max(elapsed_s, 1e-3)))
        checks = 1 + max(0, ceil(log2(most / self.first_check)))
        return replace(policy, alpha=policy.alpha / checks)
