"""Costs per task: exact ones as they are, timed ones with bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from statistics import fmean, stdev
from typing import TypeAlias

from pytest_schedprof.analysis.estimate import MIN_ROUNDS
from pytest_schedprof.analysis.growth import DIGITS, MIN_SCALES, exponent
from pytest_schedprof.analysis.owners import doubt_of_collector, owner_alone
from pytest_schedprof.analysis.patterns import compile_pattern
from pytest_schedprof.analysis.student import MANY, bound_at
from pytest_schedprof.model.metric import METRICS
from pytest_schedprof.model.profile import CostProfile, Function
from pytest_schedprof.model.result import FunctionCost, MeasuredCosts
from pytest_schedprof.model.verdict import Estimate

DRIFT = 0.1
"""Standard deviation of a timed cost, or a peak, between identical windows, as a fraction of it.
It is the machine's, not the backend's; docs/costs.md tells where it was measured."""

DEAREST_BY = ("self_seconds", "bytecodes", "calls", "peak", "leaked")
"""What a function's own part is told by: the first that a backend has decides the order."""

Amounts: TypeAlias = dict[str, float]
"""Costs by metric."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What one round cost."""

    tasks: int
    functions: Mapping[Function, Mapping[str, float]]
    whole: Mapping[str, float]
    doubt: str = ""
    """Why nothing can be judged by it; empty if it can."""
    hides: str = ""
    """Why functions may be missing from it; empty if none are."""
    scale: int = 0
    """Size of the test's workload; 0 where a test has none."""


def unit_of(
    tasks: int, whole: Mapping[str, float], profiles: Iterable[CostProfile], scale: int = 0
) -> Unit:
    """One round's costs; `whole` is what the scheduler itself could tell."""
    functions: dict[Function, Amounts] = defaultdict(dict)
    together = dict(whole)
    doubt = hides = ""
    for profile in profiles:
        doubt, hides = doubt or profile.doubt, hides or profile.hides
        for function, costs in profile.functions.items():
            gather(functions[function], costs)
        gather(together, profile.whole)
    return Unit(tasks, functions, together, doubt, hides, scale)


def gather(into: Amounts, costs: Mapping[str, float]) -> None:
    """Add costs to others; of two peaks the higher one counts."""
    for metric, amount in costs.items():
        before = into.get(metric, 0)
        is_peak = metric in METRICS and METRICS[metric].is_peak
        into[metric] = max(before, amount) if is_peak else before + amount


@dataclass(frozen=True)
class Costs:
    """The costs of all rounds, ready to answer for any function or owner."""

    units: Sequence[Unit]

    @property
    def tasks(self) -> int:
        """Tasks over all rounds."""
        return sum(unit.tasks for unit in self.units)

    @cached_property
    def functions(self) -> dict[Function, Amounts]:
        """Every function's costs over all rounds."""
        sums: dict[Function, Amounts] = defaultdict(dict)
        for unit in self.units:
            for function, costs in unit.functions.items():
                gather(sums[function], costs)
        return dict(sums)

    def seen(self, metric: str) -> Collection[Function]:
        """Every function that was called."""
        return self.functions

    def of(self, metric: str, subject: str) -> Estimate:
        """The metric per task, or the highest of the rounds if it is a peak."""
        amounts = [_amount(unit, metric, subject) for unit in self.units]
        if METRICS[metric].is_peak:
            return roughly(max(amounts), self.tasks)
        return per_task(metric, amounts, [unit.tasks for unit in self.units])

    def doubt(self, metric: str, subject: str) -> str:
        """A cost is per task, and a peak needs no tasks."""
        for unit in self.units:
            if unit.doubt:
                return unit.doubt
            if unit.hides and ":" in subject and not self._matching(subject):
                return unit.hides
        if metric == "seconds" and (doubt := doubt_of_collector(subject, self.functions)):
            return doubt
        if METRICS[metric].is_peak or self.tasks:
            return ""
        return "the scheduler processed no task, and costs are per task"

    def growth(self, metric: str, subject: str) -> Estimate:
        """By the amounts at each scale."""
        is_exact = METRICS[metric].is_exact
        return exponent(self._points(metric, subject), self.tasks, 0.0 if is_exact else DRIFT)

    def doubt_of_growth(self, metric: str, subject: str) -> str:
        """Without two scales nothing can be said."""
        if len({unit.scale for unit in self.units} - {0}) >= MIN_SCALES:
            return ""
        return "growth needs a test that runs at two scales or more, as with scale=[100, 1000]"

    def _points(self, metric: str, subject: str) -> list[tuple[int, float]]:
        return [(unit.scale, _amount(unit, metric, subject)) for unit in self.units if unit.scale]

    def _matching(self, pattern: str) -> bool:
        matches = compile_pattern(pattern).fullmatch
        return any(matches(function) for function in self.functions)

    def measured(self) -> MeasuredCosts:
        """All costs for the record, the dearest function first."""
        names = sorted(self.functions, key=lambda name: (*_dearness(self.functions[name]), name))
        whole: Amounts = {}
        for unit in self.units:
            gather(whole, unit.whole)
        return MeasuredCosts(
            functions=tuple(self._function(name) for name in names),
            whole=whole,
            scatter=self._scatter([unit.whole for unit in self.units], whole),
        )

    def _function(self, name: Function) -> FunctionCost:
        total = self.functions[name]
        rounds = [unit.functions.get(name, {}) for unit in self.units]
        return FunctionCost(name, owner_alone(name), dict(total), self._scatter(rounds, total))

    def _scatter(self, rounds: Sequence[Mapping[str, float]], total: Amounts) -> Amounts:
        """Between rounds of one scale: costs at several scales differ by what they are."""
        groups = [
            [i for i, unit in enumerate(self.units) if unit.tasks and unit.scale == scale]
            for scale in {unit.scale for unit in self.units}
        ]
        if min(map(len, groups)) < 2:  # one round does not scatter
            return {}
        return {
            metric: max(
                scatter([rounds[i].get(metric, 0) / self.units[i].tasks for i in group])
                for group in groups
            )
            for metric in total
        }


def scatter(values: Sequence[float]) -> float:
    """Standard deviation as a fraction of the mean."""
    mean = fmean(values)
    return round(stdev(values) / mean, DIGITS) if mean else 0.0


def _dearness(costs: Mapping[str, float]) -> tuple[float, ...]:
    return tuple(-costs.get(metric, 0) for metric in DEAREST_BY)


def _amount(unit: Unit, metric: str, subject: str) -> float:
    if not subject:
        total = sum(costs.get(metric, 0) for costs in unit.functions.values())
        return unit.whole.get(metric, total)
    if subject.startswith("@"):
        # Seconds of callers hold those of their callees: an owner's own are those of neither.
        own = "self_seconds" if metric == "seconds" else metric
        mine = (costs for name, costs in unit.functions.items() if owner_alone(name) == subject[1:])
        return sum(costs.get(own, 0) for costs in mine)
    return unit.functions.get(subject, {}).get(metric, 0)


def exactly(value: float, tasks: int) -> Estimate:
    """A number that is the same every run has no bounds but itself."""
    return Estimate(value, value, value, samples=tasks, dispersion=0.0)


def roughly(value: float, tasks: int) -> Estimate:
    """A number of one window, with bounds from how far such numbers stray."""
    half = DRIFT * value * bound_at(MANY)
    return Estimate(value, max(0.0, value - half), value + half, samples=tasks, dispersion=0.0)


def per_task(metric: str, amounts: Sequence[float], tasks: Sequence[int]) -> Estimate:
    """The ratio `sum(amounts) / sum(tasks)` over rounds, with bounds if time is in it."""
    total = sum(tasks)
    if not total:
        return Estimate(0.0, 0.0, 0.0, samples=0, dispersion=0.0)
    value = sum(amounts) / total
    if METRICS[metric].is_exact:
        return exactly(value, total)
    used = [(amount, count) for amount, count in zip(amounts, tasks, strict=True) if count]
    if len(used) < MIN_ROUNDS:
        return roughly(value, total)
    half = _half_width(value, used)
    return Estimate(value, max(0.0, value - half), value + half, samples=total, dispersion=0.0)


def _half_width(value: float, rounds: Sequence[tuple[float, int]]) -> float:
    """From the scatter of the rounds."""
    squares = sum((amount - value * count) ** 2 for amount, count in rounds)
    tasks = sum(count for _, count in rounds)
    deviation = sqrt(squares * len(rounds) / (len(rounds) - 1)) / tasks
    return deviation * bound_at(len(rounds) - 1)
