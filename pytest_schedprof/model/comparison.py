"""Changes between two measurements of the same tests."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from pytest_schedprof.model.explanation import Cause
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.profile import Function


class Difference(StrEnum):
    """What differs first."""

    NOTHING = "nothing"
    """Everything happened in the same way and at the same times."""
    WORKER = "worker"
    """Another worker was chosen for the same task."""
    TIME = "time"
    """The same was decided at another time."""
    TASK = "task"
    """Another task was decided about, or another thing about the same task."""
    END = "end"
    """One side decided nothing more."""
    MESSAGES = "messages"
    """Every decision is the same; other messages differ, or their times."""
    GRAPH = "graph"
    """The test sent other tasks: nothing follows about the scheduler."""
    UNKNOWN = "unknown"
    """The hashes differ; what was recorded of one side is not at hand."""


class SeenWorker(Struct, frozen=True):
    """A worker as the scheduler saw it, with regard to a task."""

    name: str
    occupancy_s: float
    """Seconds of work that the scheduler expected there."""
    processing: int
    """Tasks that it had."""
    fetch: int
    """Bytes of the task's dependencies that it did not hold."""


class Choice(Struct, frozen=True):
    """A decision, and what the scheduler compared for it."""

    at_s: float
    """Virtual time since the window began."""
    kind: str
    """`compute`, `steal` or `stolen`."""
    key: str
    worker: SeenWorker
    rule: str = ""
    """How the scheduler chose the worker: one of `RULES`."""
    others: int = 0
    """Number of other workers that it had to choose from."""
    best_other: SeenWorker | None = None
    """The best of them, of a theft the thief; None if there was none, or too many to look at."""


class FirstDifference(Struct, frozen=True):
    """The decisions of two runs of a test, compared."""

    what: Difference
    hashes: tuple[str, str]
    """Of the first round that differs; of the first one if none does."""
    round: int = 1
    rounds: int = 1
    """Rounds that both sides have."""
    alike: int = 0
    """Decisions of the round that are the same before the first difference."""
    before: Choice | None = None
    after: Choice | None = None
    later: Choice | None = None
    """What the later side decided about the earlier side's task, if not at the same place."""
    tasks: int = 0
    """Tasks that finished on both sides."""
    moved: int = 0
    """How many of them finished on another worker."""
    only_before: int = 0
    """Tasks that only the earlier side decided about."""
    only_after: int = 0
    figures: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Figures of the round that differ, before and after."""


class Outcome(StrEnum):
    """The result of comparing one figure."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    SHIFTED = "shifted"
    """It rose without a rise of the total cost: other figures fell, code moved, or a cache of the
    interpreter was emptied."""
    ACCEPTED = "accepted"
    """It rose by what the project's tolerance allows, or by what somebody accepted."""
    UNDECIDED = "undecided"
    SAME = "same"


class Change(Struct, frozen=True):
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


class Setting(Struct, frozen=True):
    """A setting that differs between the two sides, and so is what is compared."""

    name: str
    """`workers`, `threads` (of each worker), `Python`, an option of the cluster or of dask."""
    before: str
    after: str


class Origin(StrEnum):
    """What tells how much figures vary when nothing changed."""

    PAST = "past"
    CONSTANTS = "constants"


class Thresholds(Struct, frozen=True):
    """Where the thresholds of a comparison come from."""

    origin: Origin
    runs: int | None = None
    """Earlier runs in the same setting; None if the comparison is not with a series of runs."""
    cpu_rise: float | None = None
    """Smallest rise of the CPU time per task that counts, as a fraction."""


class AcceptedFigure(Struct, frozen=True):
    """A rise that somebody accepted, from a figure to another one."""

    test: str
    metric: str
    function: Function
    """Empty for the scheduler as a whole."""
    before: float
    after: float
    reason: str
    commit: str
    """The commit that was measured; empty without git."""


class Comparison(Struct, frozen=True):
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
    parting: FirstDifference | None = None
    """Where the decisions part, of a backend that records them."""
    thresholds: Thresholds | None = None
    """None if nothing was compared, or by rules for figures that do not vary."""
    tasks: tuple[float, float] | None = None
    """Tasks of a round before and after, if they differ and costs are therefore per round; else
    None, and costs are per task."""
    causes: tuple[Cause, ...] = ()
    """The functions that explain what regressed, the most important first; none if that is not
    known."""
    wholes: tuple[Change, ...] = ()
    """The figures of the scheduler as a whole, of each metric that has one, the same ones too."""
    accepted: tuple[AcceptedFigure, ...] = ()
    """What somebody accepted of its rises."""

    @property
    def verdict(self) -> Verdict:
        """Fail for a regression, inconclusive for an undecided figure, else pass."""
        outcomes = {change.outcome for change in self.changes}
        if Outcome.REGRESSED in outcomes:
            return Verdict.FAIL
        is_unsure = self.reasons or Outcome.UNDECIDED in outcomes
        return Verdict.INCONCLUSIVE if is_unsure else Verdict.PASS

    def of(self, outcome: Outcome) -> list[Change]:
        return [change for change in self.changes if change.outcome is outcome]


class Report(Struct, frozen=True):
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
    is_partial: bool = False
    """Whether the earlier results have one of these, so that nothing is known of it."""

    @property
    def verdict(self) -> Verdict:
        unknown = [Verdict.INCONCLUSIVE] if self.is_partial else []
        return Verdict.worst([*unknown, *(comparison.verdict for comparison in self.comparisons)])
