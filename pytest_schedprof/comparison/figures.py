"""Figures of one backend's window, with the standard errors that a comparison needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import hypot, sqrt
from statistics import median, stdev

from pytest_schedprof.analysis.costs import DRIFT
from pytest_schedprof.analysis.estimate import MIN_ROUNDS
from pytest_schedprof.analysis.owners import owner_alone
from pytest_schedprof.analysis.student import MANY
from pytest_schedprof.comparison.contrast import Figure
from pytest_schedprof.comparison.counted import CountedFigures
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.result import Segment
from pytest_schedprof.model.verdict import Estimate

GUESSED = 2
"""Degrees of freedom of an error that was not measured. A single round of the same code took
three times the CPU time when the garbage collector ran, so only a large difference is a change."""

TELLING = 0.01
"""Smallest share of functions from which the usual dispersion is computed."""


@dataclass(frozen=True)
class Figures(CountedFigures):
    """All figures: what was counted, and what clocks and samples tell."""

    @cached_property
    def cpu(self) -> Figure:
        """CPU time of the scheduler, with an error from the rounds if there are enough."""
        value = self.result.window.cpu_seconds / self._units if self._units else 0.0
        rounds = self.cpu_of_rounds
        if len(rounds) < MIN_ROUNDS:
            return Figure(value, value * DRIFT, GUESSED)
        return Figure(value, stdev(rounds) / sqrt(len(rounds)), len(rounds) - 1)

    @cached_property
    def cpu_of_rounds(self) -> list[float]:
        """CPU time of each segment; empty if the test runs at several scales, or if they should be
        of rounds that have several segments."""
        window = self.result.window
        if len(window.scales) > 1:
            return []
        if self.is_per_round:
            each_is_round = len(window.segments) == window.rounds
            return [each.cpu_seconds for each in window.segments] if each_is_round else []
        return [_cpu(segment) for segment in window.segments if segment.tasks]

    @property
    def busy(self) -> float:
        """Part of the samples that are busy samples of the scheduler."""
        return self.result.shares.busy_part if self.result.shares else 0.0

    @cached_property
    def shares(self) -> dict[str, Estimate]:
        """Shares of every function and of every `@owner`."""
        if self.result.shares is None:
            return {}
        found = {each.function: each.share for each in self.result.shares.functions}
        return found | {f"@{each.owner}": each.share for each in self.result.shares.owners}

    @cached_property
    def self_shares(self) -> dict[Function, Estimate]:
        """Self shares of every function."""
        if self.result.shares is None:
            return {}
        return {each.function: each.self_share for each in self.result.shares.functions}

    def share(self, subject: str, typical: float) -> Figure:
        """Return a share; `typical` is the pooled share of both sides, which gives its error."""
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

    def sampling_error(self, typical: float) -> float:
        """Return the standard error of a share of this size, by the usual dispersion."""
        samples = self.result.shares.busy_samples if self.result.shares else 1
        return self._usual_ratio * sqrt(typical * (1 - typical) / max(1, samples))

    @cached_property
    def _usual_ratio(self) -> float:
        """Median dispersion of functions with a share large enough to measure it.

        A few rounds estimate the dispersion of one function badly, and that of all functions well:
        a lower dispersion of one function is chance.
        """
        ratios = [each.dispersion for each in self.shares.values() if each.value >= TELLING]
        return median(ratios) if ratios else 1.0

    def cost(self, subject: str, typical: float) -> Figure:
        """Return the CPU time per task of a function: its share of the scheduler's busy time."""
        share, cpu = self.share(subject, typical), self.cpu
        error = self.busy * hypot(share.error * cpu.value, cpu.error * share.value)
        return Figure(share.value * self.busy * cpu.value, error, share.freedom)


def owner_of_subject(subject: str) -> str:
    """The owner of a subject; an empty string for the scheduler as a whole."""
    if subject.startswith("@"):
        return subject[1:]
    return owner_alone(subject) if subject else ""


def _cpu(segment: Segment) -> float:
    return segment.cpu_seconds / segment.tasks
