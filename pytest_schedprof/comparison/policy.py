"""Thresholds of a comparison: how large and how certain a change must be."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Policy:
    """Thresholds that a difference must pass to be called a change."""

    exact_rise: float = 0.01
    """Relative change of calls and bytecodes per task."""
    cpu_rise: float = 0.05
    """Relative change of the CPU time per task."""
    share_rise: float = 0.02
    """Difference of a share."""
    least_cpu_rise: float = 0.01
    """Instead of `cpu_rise` where earlier runs show how much the figure varies between runs."""
    least_share_rise: float = 0.005
    """Instead of `share_rise` there."""
    alpha: float = 0.01
    """Rate of false alarms: probability that a comparison of identical code finds any regression,
    for all timed figures of one test together."""
    seen_from: float = 0.02
    """Smallest share of functions that are compared. The change of smaller ones is below
    `share_rise`, and each further figure makes all others harder to decide."""

    def with_past(self) -> Policy:
        """Return the policy for figures of which earlier runs show how much they vary."""
        return replace(self, cpu_rise=self.least_cpu_rise, share_rise=self.least_share_rise)


DEFAULT_POLICY = Policy()
