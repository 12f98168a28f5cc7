"""Changes between two measurements of the same tests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_schedprof.model.explanation import Cause
from pytest_schedprof.model.parting import Parting
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.verdict import Verdict


class Outcome(StrEnum):
    """The result of comparing one figure."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    SHIFTED = "shifted"
    """It rose without a rise of the total cost: other figures fell, code moved, or a cache of the
    interpreter was emptied."""
    UNDECIDED = "undecided"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Change:
    """One figure before and after."""

    metric: str
    subject: Function
    """A function, an `@owner`, or empty for the scheduler as a whole."""
    owner: str
    outcome: Outcome
    before: float
    after: float
    low: float
    """Lower bound of the difference."""
    high: float
    """Upper bound of the difference."""
    note: str = ""
    """Why it is a shift, or what a decision needs."""

    @property
    def difference(self) -> float:
        """Difference in the unit of the metric."""
        return self.after - self.before

    @property
    def relative(self) -> float | None:
        """Difference as a fraction of the value before; None if that was 0."""
        return self.difference / self.before if self.before else None


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that differs between the two sides, and so is what is compared."""

    name: str
    """`workers`, `threads` (of each worker), `Python`, an option of the cluster or of dask."""
    before: str
    after: str


class Origin(StrEnum):
    """What tells how much figures vary when nothing changed."""

    PAST = "past"
    CONSTANTS = "constants"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where the thresholds of a comparison come from."""

    origin: Origin
    runs: int | None = None
    """Earlier runs in the same setting; None if the comparison is not with a series of runs."""
    cpu_scatter: float | None = None
    """Standard deviation of the CPU time per task between these runs, as a fraction."""
    cpu_rise: float | None = None
    """Smallest rise of the CPU time per task that counts, as a fraction."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One test measured by one backend, before and after."""

    test_id: str
    backend: str
    mode: str
    changes: tuple[Change, ...]
    """All changes except unchanged figures, the most severe first."""
    same: int
    """Number of figures that stayed the same."""
    reasons: tuple[str, ...] = ()
    """Why some figures, or all, could not be compared."""
    is_binding: bool = True
    """Whether a regression fails the test; False if its limits are relative to a baseline."""
    settings: tuple[Setting, ...] = ()
    """Settings that differ."""
    parting: Parting | None = None
    """Where the decisions part, of a backend that records them."""
    thresholds: Thresholds | None = None
    """None if nothing was compared, or by rules for figures that do not vary."""
    tasks: tuple[float, float] | None = None
    """Tasks of a round before and after, if they differ and costs are therefore per round; else
    None, and costs are per task."""
    causes: tuple[Cause, ...] = ()
    """The functions that explain what regressed, the most important first; none if that is not
    known."""

    @property
    def verdict(self) -> Verdict:
        """Fail for a regression, inconclusive for an undecided figure, else pass."""
        outcomes = {change.outcome for change in self.changes}
        if Outcome.REGRESSED in outcomes:
            return Verdict.FAIL
        is_unsure = self.reasons or Outcome.UNDECIDED in outcomes
        return Verdict.INCONCLUSIVE if is_unsure else Verdict.PASS

    def of(self, outcome: Outcome) -> list[Change]:
        """Return the changes with this outcome."""
        return [change for change in self.changes if change.outcome is outcome]


@dataclass(frozen=True, slots=True)
class Report:
    """A comparison of two sets of results."""

    before: str
    """Name of the earlier results."""
    after: str
    comparisons: tuple[Comparison, ...]
    new: tuple[str, ...] = ()
    """Tests that only the later results have."""
    vanished: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    """Earlier and later ID of tests that were renamed."""
    unusable: tuple[str, ...] = ()
    """Tests that failed, or whose profiling failed, in the later results."""

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all comparisons."""
        return Verdict.worst([each.verdict for each in self.comparisons])
