"""What a record says of one backend's window, as figures that can be held against others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import hypot, sqrt
from statistics import median, stdev

from pytest_schedprof.analysis.costs import DRIFT
from pytest_schedprof.analysis.estimate import MIN_ROUNDS, with_drift
from pytest_schedprof.analysis.owners import NOT_SCHEDULER, owner_alone
from pytest_schedprof.analysis.student import MANY
from pytest_schedprof.comparison.contrast import Figure
from pytest_schedprof.model.calibration import BackendCalibration, Spread
from pytest_schedprof.model.metric import METRICS
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.result import BackendResult, Segment
from pytest_schedprof.model.verdict import Estimate

GUESSED = 2
"""Degrees of freedom of an error that nobody measured: a single round of the same code took three
times the CPU time, when the collector of garbage ran. So it takes much to be called a change."""

STEADY = 0.001
"""Counts that scatter less between three rounds or more are the same every run: a tenth of what
counts. No function can be trusted to be so without: which worker was idle when, and whether its
word came before or after another's, decides what the state machine does, too."""

UNSTEADY = 0.05
"""Standard deviation, as a fraction, of a count where no rounds show it."""

TELLING = 0.01
"""Share of functions whose scatter says what is usual."""

TRAFFIC = frozenset({"messages_in", "messages_out", "bytes_in", "bytes_out"})

UNSTEADY_TRAFFIC = 0.2
"""The same of messages and their bytes, where fewer than three rounds show it: 2.06 and 3.01 a task
were seen of the same code, in two rounds each. How many are sent as one depends on who is busy, so
rounds that agree within a session say little of the next: with more of them it is still 5 %."""


@dataclass(frozen=True)
class Figures:
    """One backend's window."""

    result: BackendResult
    noise: tuple[BackendCalibration, ...] = ()
    """What the same backend measured of identical windows on the same machine."""

    @property
    def tasks(self) -> int:
        """Over all rounds."""
        return self.result.window.tasks

    def exact(self, metric: str) -> dict[Function, Figure]:
        """Every function's count per task; the scheduler's own ones alone."""
        if self.result.costs is None or not self.tasks:
            return {}
        return {
            each.function: self._count(
                metric, each.total[metric] / self.tasks, each.scatter.get(metric)
            )
            for each in self.result.costs.functions
            if metric in each.total and each.owner not in NOT_SCHEDULER
        }

    def whole(self, metric: str) -> Figure | None:
        """Of the scheduler as a whole; None where the backend does not tell."""
        if self.result.costs is None or not self.tasks:
            return None
        if metric in self.result.costs.whole:
            value = self.result.costs.whole[metric] / self.tasks
            return self._count(metric, value, self.result.costs.scatter.get(metric))
        parts = self.exact(metric).values()
        error = sqrt(sum(part.error**2 for part in parts))
        return Figure(sum(part.value for part in parts), error) if parts else None

    def _count(self, metric: str, value: float, scatter: float | None) -> Figure:
        rounds = self._rounds
        if metric in TRAFFIC:
            least = UNSTEADY if rounds >= MIN_ROUNDS else UNSTEADY_TRAFFIC
            return Figure(value, value * max(scatter or 0.0, least), max(1, rounds - 1))
        if scatter is None or rounds < MIN_ROUNDS:
            return Figure(value, value * max(scatter or 0.0, UNSTEADY))
        if scatter < STEADY:
            return Figure(value)
        return Figure(value, value * scatter / sqrt(rounds), rounds - 1)

    @property
    def _rounds(self) -> int:
        """At each of its scales."""
        window = self.result.window
        return window.rounds // max(1, len(window.scales))

    @cached_property
    def metrics(self) -> list[str]:
        """Exact ones that the backend measured."""
        costs = self.result.costs
        if costs is None:
            return []
        found = {metric for each in costs.functions for metric in each.total} | set(costs.whole)
        return [name for name, metric in METRICS.items() if metric.is_exact and name in found]

    @cached_property
    def cpu(self) -> Figure:
        """CPU time of the scheduler per task, by the scatter of rounds if there are enough."""
        value = self.result.window.cpu_seconds / self.tasks if self.tasks else 0.0
        rounds = self.cpu_of_rounds
        if len(rounds) < MIN_ROUNDS:
            return Figure(value, value * self._cpu_scatter, freedom_of(self._spreads))
        return Figure(value, stdev(rounds) / sqrt(len(rounds)), len(rounds) - 1)

    @property
    def _cpu_scatter(self) -> float:
        """Of single windows. Of several calibrations the worst: some noise lasts for hours."""
        return max((each.instead_of(DRIFT) for each in self._spreads), default=DRIFT)

    @property
    def _spreads(self) -> list[Spread]:
        return [each.cpu for each in self.noise if each.cpu]

    @cached_property
    def cpu_of_rounds(self) -> list[float]:
        """The same of each segment; none at several scales, which differ by what they are."""
        window = self.result.window
        if len(window.scales) > 1:
            return []
        return [_cpu(segment) for segment in window.segments if segment.tasks]

    @property
    def busy(self) -> float:
        """Which part of the samples was the scheduler's."""
        shares = self.result.shares
        if shares is None:
            return 0.0
        all_of_them = shares.busy_samples + shares.idle_samples + shares.empty_samples
        return shares.busy_samples / max(1, all_of_them)

    @cached_property
    def shares(self) -> dict[str, Estimate]:
        """Of every function, and of every `@owner`."""
        if self.result.shares is None:
            return {}
        found = {each.function: each.share for each in self.result.shares.functions}
        found |= {f"@{each.owner}": each.share for each in self.result.shares.owners}
        return {subject: self._drifting(share) for subject, share in found.items()}

    @cached_property
    def self_shares(self) -> dict[Function, Estimate]:
        """Of samples that end in the function."""
        if self.result.shares is None:
            return {}
        return {
            each.function: self._drifting(each.self_share) for each in self.result.shares.functions
        }

    def _drifting(self, share: Estimate) -> Estimate:
        """As far as shares stray on this machine; rounds show that themselves."""
        shares = self.result.shares
        spreads = [each.drift for each in self.noise if each.drift]
        if not (shares and shares.drift and spreads):
            return share
        drift = max(each.instead_of(shares.drift) for each in spreads)
        return with_drift(share, shares.drift, drift, shares.freedom)

    def share(self, subject: str, typical: float) -> Figure:
        """A share; `typical` is that of both sides together, which gives the error of a zero."""
        shares, found = self.result.shares, self.shares.get(subject)
        if shares is None or not shares.busy_samples:
            return Figure(0.0, 1.0, 1)
        value, ratio = (found.value, found.dispersion) if found else (0.0, 0.0)
        freedom = shares.freedom or 1
        if ratio <= self._usual_ratio:
            ratio, freedom = self._usual_ratio, MANY
        return Figure(
            value, ratio * sqrt(max(typical * (1 - typical), 1e-9) / shares.busy_samples), freedom
        )

    @cached_property
    def _usual_ratio(self) -> float:
        """The median of functions that hold enough for their scatter to be seen.

        A few rounds tell the scatter of one function badly, and that of all together well: one
        that seems to scatter less does so by chance.
        """
        ratios = [each.dispersion for each in self.shares.values() if each.value >= TELLING]
        return median(ratios) if ratios else 1.0

    def cost(self, subject: str, typical: float) -> Figure:
        """CPU time per task of a function: its share of what the scheduler was busy with."""
        share, cpu = self.share(subject, typical), self.cpu
        error = self.busy * hypot(share.error * cpu.value, cpu.error * share.value)
        return Figure(share.value * self.busy * cpu.value, error, share.freedom)


def freedom_of(spreads: Sequence[Spread]) -> int:
    """Of what few windows showed no more is known than of a guess."""
    return max([GUESSED, *(int(each.freedom) for each in spreads)])


def owner_of_subject(subject: str) -> str:
    """Of an owner itself; of the whole none."""
    if subject.startswith("@"):
        return subject[1:]
    return owner_alone(subject) if subject else ""


def _cpu(segment: Segment) -> float:
    return segment.cpu_seconds / segment.tasks
