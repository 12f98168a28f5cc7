"""A change against what is usual in a series of runs: it counts when it stands twice."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from pytest_schedprof.analysis.usual import EACH, Usual
from pytest_schedprof.comparison.contrast import Contrast

SEEN_ONCE = "seen in this run only: it counts if the next run shows it too"


@dataclass(frozen=True, slots=True)
class Standing(Contrast):
    """A figure and its usual level, with the figure of the run before this one."""

    then: float

    @property
    def rise(self) -> float:
        """The smaller rise of the two runs."""
        return min(self.after, self.then) - self.before

    @property
    def fall(self) -> float:
        """The smaller fall of the two runs."""
        return self.before - max(self.after, self.then)

    @property
    def chance_of_rise(self) -> float:
        """P value of a rise that both runs show."""
        return _of_both(self._chance(self.rise))

    @property
    def chance_of_fall(self) -> float:
        """P value of a fall that both runs show."""
        return _of_both(self._chance(self.fall))

    def _margin(self, chance: float) -> float:
        """Of each of the two runs, if noise is to exceed it in both with this chance."""
        return Contrast._margin(self, min(EACH, sqrt(chance)))

    def may_have_risen(self, needed: float) -> bool:
        """Whether this run shows a rise that the run before did not."""
        return self.difference >= needed and self._chance(self.difference) <= EACH


def standing(usual: Usual, after: float, least_error: float = 0.0) -> Standing:
    """Contrast a figure with its usual level.

    Args:
        usual: what the earlier runs tell.
        after: the figure of this run.
        least_error: smallest standard error, where most runs show nothing of a rare event.
    """
    error = max(usual.error, least_error)
    return Standing(usual.level, after, error, usual.freedom, usual.newest)


def _of_both(chance: float) -> float:
    """Return the chance of two runs, of which the less certain one has this chance."""
    return chance * chance if chance <= EACH else 1.0
