"""Earlier results, ready to be held against what a test measures now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pytest_schedprof.analysis.costs import exactly, roughly
from pytest_schedprof.analysis.student import bound_at
from pytest_schedprof.comparison.compare import choose, compare_in_turns, compare_one
from pytest_schedprof.comparison.contrast import Figure
from pytest_schedprof.comparison.matching import (
    Measurement,
    another_machine,
    measurements,
    obstacle_in_turns,
    obstacle_to_counts,
    obstacle_to_time,
)
from pytest_schedprof.comparison.policy import DEFAULT_POLICY, Policy
from pytest_schedprof.model.calibration import Calibration
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.metric import METRICS, PERCENT
from pytest_schedprof.model.result import FunctionCost, Result
from pytest_schedprof.model.verdict import Estimate


@dataclass(frozen=True)
class Reference:
    """What a session compares its tests with."""

    name: str
    results: Sequence[Result]
    policy: Policy = DEFAULT_POLICY

    @cached_property
    def _measurements(self) -> Mapping[tuple[str, str], Sequence[Measurement]]:
        return measurements(self.results)

    @cached_property
    def test_ids(self) -> frozenset[str]:
        """Tests that it knows."""
        return frozenset(test_id for test_id, _ in self._measurements)

    def _candidates(self, after: Measurement) -> Sequence[Measurement]:
        return self._measurements.get((after.result.test_id, after.of.backend), ())

    def before(self, after: Measurement) -> Before:
        """What one backend measured of the same test then."""
        if after.result.test_id not in self.test_ids:
            return Before(after, None, f"baseline {self.name!r} does not know this test")
        found, reason = choose(self._candidates(after), after)
        return Before(after, found, reason, self.policy.calibrations)

    def compare(self, after: Measurement, *, is_binding: bool) -> list[Comparison]:
        """By the default policy; of a test that is new nothing can be said."""
        if after.result.test_id not in self.test_ids:
            return []
        return [compare_one(self._candidates(after), after, self.policy, is_binding=is_binding)]


@dataclass(frozen=True)
class InTurns:
    """The side that ran in turns with the one under test: the same test, the same machine."""

    name: str
    result: Result
    policy: Policy = DEFAULT_POLICY

    def _found(self, after: Measurement) -> Measurement | None:
        same = (each for each in self.result.backends if each.backend == after.of.backend)
        return next((Measurement(self.result, each) for each in same), None)

    def before(self, after: Measurement) -> Before:
        """What one backend measured there."""
        found = self._found(after)
        if found is None:
            return Before(after, None, f"nothing was measured with {self.name!r}")
        reason = obstacle_in_turns(found, after)
        return Before(after, None if reason else found, reason)

    def compare(self, after: Measurement, *, is_binding: bool) -> list[Comparison]:
        """By the default policy."""
        found = self._found(after)
        if found is None:
            return []
        return [compare_in_turns(found, after, self.policy, is_binding=is_binding)]


@dataclass(frozen=True)
class Before:
    """An earlier measurement, as limits that are relative to it ask for it."""

    after: Measurement
    found: Measurement | None
    reason: str
    """Why there is none."""
    calibrations: tuple[Calibration, ...] = ()

    def doubt(self, metric: str) -> str:
        """Why nothing can be held against it; empty if it can."""
        if self.found is None:
            return self.reason
        if METRICS[metric].is_exact:
            return obstacle_to_counts(self.found, self.after)
        if METRICS[metric].is_peak:
            return ""
        is_sampled = self.after.of.shares is not None
        return (obstacle_to_time if is_sampled else another_machine)(self.found, self.after)

    def of(self, metric: str, subject: str) -> Estimate:
        """The metric as it was then."""
        assert self.found is not None
        if METRICS[metric].units is PERCENT or metric == "cpu":
            return self._timed(self.found, metric, subject)
        tasks = self.found.of.window.tasks
        value = self._cost(metric, subject) / (1 if METRICS[metric].is_peak else tasks)
        return (exactly if METRICS[metric].is_exact else roughly)(value, tasks)

    def now(self, metric: str, subject: str, estimate: Estimate) -> Estimate:
        """What is measured now, with bounds as the machine's calibrations give them."""
        is_known = bool(self.after.figures(self.calibrations).noise)
        if not is_known or not (METRICS[metric].units is PERCENT or metric == "cpu"):
            return estimate
        return self._timed(self.after, metric, subject)

    def _timed(self, side: Measurement, metric: str, subject: str) -> Estimate:
        """A share, or CPU time per task."""
        figures = side.figures(self.calibrations)
        shares = figures.self_shares if metric == "self" else figures.shares
        if METRICS[metric].units is PERCENT:
            return shares.get(subject, NEVER_SEEN)
        if not subject:
            return _bounded(figures.cpu, figures.tasks)
        share = shares.get(subject, NEVER_SEEN)
        return _bounded(figures.cost(subject, share.value), figures.tasks)

    def _cost(self, metric: str, subject: str) -> float:
        """As the record has it: over the whole window."""
        costs = self.found.of.costs if self.found else None
        if costs is None:
            return 0.0
        if not subject and metric in costs.whole:
            return costs.whole[metric]
        own = "self_seconds" if metric == "seconds" and ":" not in subject else metric
        return sum(each.total.get(own, 0.0) for each in costs.functions if _is_of(each, subject))


NEVER_SEEN = Estimate(0.0, 0.0, 0.001, samples=0, dispersion=0.0)
"""A baseline does not keep functions that hold less."""


def _is_of(each: FunctionCost, subject: str) -> bool:
    if subject.startswith("@"):
        return each.owner == subject[1:]
    return not subject or each.function == subject


def _bounded(figure: Figure, tasks: int) -> Estimate:
    half = figure.error * bound_at(figure.freedom)
    return Estimate(figure.value, max(0.0, figure.value - half), figure.value + half, tasks, 0.0)
