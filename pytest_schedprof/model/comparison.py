"""What changed between two measurements of the same tests: each change with its figures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.verdict import Verdict


class Outcome(str, Enum):
    """What became of one figure."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    SHIFTED = "shifted"
    """It rose, but the cost as a whole did not: others fell, or the code moved."""
    UNDECIDED = "undecided"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Change:
    """One figure before and after."""

    metric: str
    subject: Function
    """A function, an `@owner`, or nothing for the scheduler as a whole."""
    owner: str
    outcome: Outcome
    before: float
    after: float
    low: float
    """The difference is at least this."""
    high: float
    """The difference is at most this."""
    note: str = ""
    """Why it is a shift, or what is needed for a decision."""

    @property
    def difference(self) -> float:
        """In the metric's own unit."""
        return self.after - self.before

    @property
    def relative(self) -> float | None:
        """As a part of what was before; None of what was not there."""
        return self.difference / self.before if self.before else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One test under one backend, before and after."""

    test_id: str
    backend: str
    mode: str
    changes: tuple[Change, ...]
    """All but what stayed the same; the gravest first."""
    same: int
    """How many figures stayed the same."""
    reasons: tuple[str, ...] = ()
    """Why some figures, or all, could not be compared."""
    is_binding: bool = True
    """Whether a regression fails the test: not where limits say what it may cost."""

    @property
    def verdict(self) -> Verdict:
        """A regression fails; what could not be decided is a doubt."""
        outcomes = {change.outcome for change in self.changes}
        if Outcome.REGRESSED in outcomes:
            return Verdict.FAIL
        is_unsure = self.reasons or Outcome.UNDECIDED in outcomes
        return Verdict.INCONCLUSIVE if is_unsure else Verdict.PASS

    def of(self, outcome: Outcome) -> list[Change]:
        """The changes of one kind."""
        return [change for change in self.changes if change.outcome is outcome]


@dataclass(frozen=True, slots=True)
class Report:
    """Two sets of results compared."""

    before: str
    """What the earlier ones are called."""
    after: str
    comparisons: tuple[Comparison, ...]
    new: tuple[str, ...] = ()
    """Tests that only the later ones have."""
    vanished: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    """Earlier and later ID of tests that are the same but for it."""
    unusable: tuple[str, ...] = ()
    """Tests that failed, or whose profiling did, in the later ones."""

    @property
    def verdict(self) -> Verdict:
        """All comparisons taken together."""
        return Verdict.worst([each.verdict for each in self.comparisons])
