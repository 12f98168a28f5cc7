"""Earlier results, to compare a test's current measurements with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pytest_schedprof.judge.acceptance import with_accepted
from pytest_schedprof.judge.compare import (
    Earlier,
    choose,
    compare_in_turns,
    compare_one,
    with_earlier,
)
from pytest_schedprof.judge.costs import exactly, has_figure, line_of, roughly
from pytest_schedprof.judge.estimate import ALPHA, Figure, bound_at
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.judge.matching import (
    another_machine,
    differing_settings,
    measurements,
    obstacle_in_turns,
    obstacle_to_evidence,
    obstacle_to_metric,
    obstacle_to_time,
    other_work,
)
from pytest_schedprof.judge.phases import EvidenceMeasurements
from pytest_schedprof.model.comparison import AcceptedFigure, Comparison
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.limit import Estimate
from pytest_schedprof.model.metric import METRICS, PERCENT, SELF, TIME, own_part
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.result import Result


class EvidenceBefore(Struct, frozen=True):
    """Evidence of one kind from an earlier run, or from another side."""

    after: Result
    earlier: tuple[Result, Evidence] | None
    """The evidence, and the record that it is of; None if there is none."""
    reason: str
    """Why there is none, if there is none."""
    is_same_machine: bool = False

    def doubt(self, metric: str, subjects: Sequence[str] = ()) -> str:
        if self.earlier is None:
            return self.reason
        before, evidence = self.earlier
        is_of_machine = METRICS[metric].units is TIME and not self.is_same_machine
        if is_of_machine and (reason := another_machine(before, self.after)):
            return reason
        subjects_before = {
            amounts.subject
            for amounts in evidence.amounts
            if amounts.metric == metric and amounts.amounts
        }
        if not subjects_before:
            return f"the baseline has no figures of {metric!r}"
        lacking = sorted({*subjects} - subjects_before) if METRICS[metric].choices else []
        return f"the baseline has no {metric}({lacking[0]})" if lacking else ""

    def of(self, metric: str, subject: str) -> Estimate:
        """Return the earlier estimate of a metric; 0 of a task that did not run."""
        assert self.earlier is not None
        return EvidenceMeasurements(self.earlier[1]).of(metric, subject)

    def line(self, metric: str, function: Function) -> str:
        """Return the same name: each has a figure of its own."""
        return function


def evidence_of(result: Result, kind: str) -> Iterator[tuple[Result, Evidence]]:
    """Yield the evidence of a kind that has figures, with its record."""
    for evidence in result.evidence:
        if evidence.kind == kind and evidence.amounts:
            yield result, evidence


class Reference(Struct, frozen=True, dict=True):
    """The earlier results that a session compares its tests with."""

    name: str
    results: Sequence[Result]
    run: Path | None = None
    """Directory of the run that they are of, if it is still there."""
    earlier: Earlier | None = None
    """The runs before them, if they are the newest run of a series."""
    commit: str = ""
    """The commit that they were measured of, in short; empty if it is not known."""
    accepted: tuple[AcceptedFigure, ...] = ()
    """Rises since then that somebody accepted."""

    @cached_property
    def _measurements(self) -> Mapping[tuple[str, str], Sequence[Measurement]]:
        return measurements(self.results)

    @cached_property
    def test_ids(self) -> frozenset[str]:
        return frozenset(test_id for test_id, _ in self._measurements)

    def _candidates(self, after: Measurement) -> Sequence[Measurement]:
        return self._measurements.get((after.result.test_id, after.backend.backend), ())

    def before(self, after: Measurement) -> Before:
        """Return what one backend measured of the same test earlier."""
        if after.result.test_id not in self.test_ids:
            return Before(after, None, f"baseline {self.name!r} does not contain this test")
        return Before(after, *choose(self._candidates(after), after))

    def evidence_before(self, result: Result, kind: str) -> EvidenceBefore:
        """Return the newest comparable evidence of the kind of the same test.

        What was measured with the same settings comes before newer evidence with others.
        """
        if result.test_id not in self.test_ids:
            return EvidenceBefore(
                result, None, f"baseline {self.name!r} does not contain this test"
            )
        usable = [other for other in self.results if other.is_usable]
        same = [other for other in usable if other.test_id == result.test_id]
        same.sort(key=lambda other: other.started_at, reverse=True)
        pairs = [pair for other in same for pair in evidence_of(other, kind)]
        reasons = [obstacle_to_evidence(other, result) for other, _ in pairs]
        fitting = [pair for pair, reason in zip(pairs, reasons, strict=True) if not reason]
        alike = (pair for pair in fitting if not differing_settings(pair[0], result))
        nearest = next(alike, None) or next(iter(fitting), None)
        reason = next(iter(reasons), f"baseline {self.name!r} has no evidence {kind!r}")
        return EvidenceBefore(result, nearest, reason)

    def compare(self, after: Measurement, *, is_binding: bool) -> list[Comparison]:
        """Return the comparison; none for a new test."""
        key = (after.result.test_id, after.backend.backend)
        candidates = with_earlier(self._candidates(after), self.earlier, *key)
        if not candidates and after.result.test_id not in self.test_ids:
            return []
        is_series = self.earlier is not None
        comparison = compare_one(candidates, after, is_binding=is_binding, is_series=is_series)
        return [with_accepted(comparison, self.accepted)]


class InTurns(Struct, frozen=True):
    """The other side of a test in turns: the same test on the same machine."""

    name: str
    result: Result
    alpha: float = ALPHA
    """The rate of false alarms of its comparison."""

    def _before(self, after: Measurement) -> Measurement | None:
        same = (
            backend for backend in self.result.backends if backend.backend == after.backend.backend
        )
        return next((Measurement(self.result, backend) for backend in same), None)

    def before(self, after: Measurement) -> Before:
        """Return what one backend measured on the other side."""
        before = self._before(after)
        if before is None:
            return Before(after, None, f"nothing was measured with {self.name!r}")
        reason = obstacle_in_turns(before, after)
        return Before(after, None if reason else before, reason)

    def evidence_before(self, result: Result, kind: str) -> EvidenceBefore:
        """Return the evidence of the kind from the other side, which has the same machine."""
        pair = next(evidence_of(self.result, kind), None)
        reason = f"{self.name!r} has no evidence {kind!r}"
        return EvidenceBefore(result, pair, reason, is_same_machine=True)

    def compare(self, after: Measurement, *, is_binding: bool) -> list[Comparison]:
        before = self._before(after)
        if before is None:
            return []
        return [compare_in_turns(before, after, self.alpha, is_binding=is_binding)]


class Before(Struct, frozen=True, dict=True):
    """An earlier measurement, as the baseline of relative limits."""

    after: Measurement
    before: Measurement | None
    reason: str
    """Why there is no measurement; else empty."""

    def doubt(self, metric: str, subjects: Sequence[str] = ()) -> str:
        if self.before is None:
            return self.reason
        costs = self.before.backend.costs
        if costs is not None and not has_figure(metric, costs.whole):
            return f"the baseline has no {metric}"
        if METRICS[metric].is_exact:
            return obstacle_to_metric(metric, self.before, self.after)
        if METRICS[metric].is_peak:
            is_time = METRICS[metric].units is TIME
            return another_machine(self.before.result, self.after.result) if is_time else ""
        if self.after.backend.shares is not None:
            return obstacle_to_time(self.before, self.after)
        return another_machine(self.before.result, self.after.result) or other_work(
            self.before, self.after
        )

    def of(self, metric: str, subject: str) -> Estimate:
        assert self.before is not None
        if METRICS[metric].is_sampled:
            return self._timed(self.before, metric, subject)
        window, kind = self.before.backend.window, METRICS[metric]
        units = window.tasks or max(1, window.rounds)  # a body without tasks is judged by rounds
        value = kind.divided(self._cost(metric, subject), units)
        estimate = (exactly if kind.is_exact else roughly)(value, window.tasks)
        is_in_line = not value and ":" in subject
        most = kind.divided(self._cost(metric, line_of(subject)), units) if is_in_line else 0.0
        return replace(estimate, high=estimate.high + most)

    def line(self, metric: str, function: Function) -> str:
        line = line_of(function)
        is_named = (metric, function) in self._names
        return line if not is_named and (metric, line) in self._names else function

    @cached_property
    def _names(self) -> frozenset[tuple[str, str]]:
        costs = self.before.backend.costs if self.before else None
        functions = costs.functions if costs else ()
        return frozenset((metric, cost.function) for cost in functions for metric in cost.total)

    def _timed(self, side: Measurement, metric: str, subject: str) -> Estimate:
        shares = side.self_shares if metric == SELF else side.shares
        if METRICS[metric].units is PERCENT:
            return shares.get(subject, NEVER_SEEN)
        if not subject:
            return _bounded(side.cpu, side.tasks)
        share = shares.get(subject, NEVER_SEEN)
        return _bounded(side.cost(subject, share.value), side.tasks)

    def _cost(self, metric: str, subject: str) -> float:
        """Return a cost over the whole window, as in the record."""
        costs = self.before.backend.costs if self.before else None
        if costs is None:
            return 0.0
        if not subject and metric in costs.whole:
            return costs.whole[metric]
        own = metric if ":" in subject else own_part(metric)
        return sum(
            cost.total.get(own, 0.0)
            for cost in costs.functions
            if subject in ("", cost.function, f"@{cost.owner}")
        )


NEVER_SEEN = Estimate(0.0, 0.0, 0.001, samples=0, dispersion=0.0)
"""Share of a function that a baseline lacks: functions with less are not kept."""


def _bounded(figure: Figure, tasks: int) -> Estimate:
    half = figure.error * bound_at(figure.freedom)
    return Estimate(figure.value, max(0.0, figure.value - half), figure.value + half, tasks, 0.0)
