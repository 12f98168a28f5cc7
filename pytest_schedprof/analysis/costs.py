"""Costs per task: exact costs without bounds, timed costs with bounds."""

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
from pytest_schedprof.analysis.student import MANY, bound_at
from pytest_schedprof.model.metric import METRICS, RANKED, own_part
from pytest_schedprof.model.profile import CostProfile, Function, compile_pattern
from pytest_schedprof.model.result import FunctionCost, MeasuredCosts
from pytest_schedprof.model.verdict import Estimate

DRIFT = 0.1
"""Standard deviation of a timed cost or a peak between identical windows, as a fraction of it.
It depends on the machine, not on the backend; docs/costs.md says where it was measured."""

Amounts: TypeAlias = dict[str, float]
"""Costs by metric."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Costs of one round."""

    tasks: int
    functions: Mapping[Function, Mapping[str, float]]
    whole: Mapping[str, float]
    doubt: str = ""
    """Why it cannot judge any limit; empty if it can."""
    hides: str = ""
    """Why functions may be missing from it; empty if none is."""
    scale: int = 0
    """Size of the test's workload; 0 if the test runs at one size only."""


def unit_of(
    tasks: int, whole: Mapping[str, float], profiles: Iterable[CostProfile], scale: int = 0
) -> Unit:
    """Add up the costs of one round; `whole` are the costs that the scheduler itself counts."""
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
    """Add costs to others; of two peaks the higher one is kept."""
    for metric, amount in costs.items():
        before = into.get(metric, 0)
        is_peak = metric in METRICS and METRICS[metric].is_peak
        into[metric] = max(before, amount) if is_peak else before + amount


@dataclass(frozen=True)
class Costs:
    """Costs of all rounds, from which the cost of any function or owner is estimated."""

    units: Sequence[Unit]

    @property
    def tasks(self) -> int:
        """Number of tasks of all rounds."""
        return sum(unit.tasks for unit in self.units)

    @cached_property
    def functions(self) -> dict[Function, Amounts]:
        """Costs of every function over all rounds."""
        sums: dict[Function, Amounts] = defaultdict(dict)
        for unit in self.units:
            for function, costs in unit.functions.items():
                gather(sums[function], costs)
        return dict(sums)

    def seen(self, metric: str) -> Collection[Function]:
        """Return every function that was called."""
        return self.functions

    def of(self, metric: str, subject: str) -> Estimate:
        """Return the metric per task, or the highest of all rounds if it is a peak."""
        amounts = [_amount(unit, metric, subject) for unit in self.units]
        if METRICS[metric].is_peak:
            judge = exactly if METRICS[metric].is_exact else roughly
            return judge(max(amounts), self.tasks)
        return per_task(metric, amounts, [unit.tasks for unit in self.units])

    def doubt(self, metric: str, subject: str) -> str:
        """Return why there is no verdict: an incomplete profile, or no task to divide a cost by."""
        for unit in self.units:
            if unit.doubt:
                return unit.doubt
            if unit.hides and ":" in subject and not self._matching(subject):
                return unit.hides
        if subject.startswith("c:") and not self._matching(subject):
            return f"no C function ran that {subject!r} names; perhaps there is none"
        if METRICS[metric].own and (doubt := doubt_of_collector(subject, self.functions)):
            return doubt
        if METRICS[metric].is_peak or self.tasks:
            return ""
        return "the scheduler processed no task, and costs are per task"

    def growth(self, metric: str, subject: str) -> Estimate:
        """Return the growth exponent of the amounts at each scale."""
        is_exact = METRICS[metric].is_exact
        return exponent(self._points(metric, subject), self.tasks, 0.0 if is_exact else DRIFT)

    def doubt_of_growth(self, metric: str, subject: str) -> str:
        """Return why the growth cannot be judged: fewer than two scales."""
        if len({unit.scale for unit in self.units} - {0}) >= MIN_SCALES:
            return ""
        return "growth needs a test that runs at two scales or more, as with scale=[100, 1000]"

    def _points(self, metric: str, subject: str) -> list[tuple[int, float]]:
        return [(unit.scale, _amount(unit, metric, subject)) for unit in self.units if unit.scale]

    def _matching(self, pattern: str) -> bool:
        matches = compile_pattern(pattern).fullmatch
        return any(matches(function) for function in self.functions)

    def measured(self) -> MeasuredCosts:
        """Return all costs for the record, the most expensive function first."""
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
        """Scatter between rounds of the same scale; others are not comparable."""
        groups = [
            [i for i, unit in enumerate(self.units) if unit.tasks and unit.scale == scale]
            for scale in {unit.scale for unit in self.units}
        ]
        if min(map(len, groups)) < 2:  # one round has no scatter
            return {}
        return {
            metric: max(
                scatter([rounds[i].get(metric, 0) / self.units[i].tasks for i in group])
                for group in groups
            )
            for metric in total
        }


def scatter(values: Sequence[float]) -> float:
    """Return the standard deviation as a fraction of the mean."""
    mean = fmean(values)
    return round(stdev(values) / mean, DIGITS) if mean else 0.0


def _dearness(costs: Mapping[str, float]) -> tuple[float, ...]:
    """Sort key of a function's own part, by the most important metric that a backend has."""
    return tuple(-costs.get(own_part(metric), 0) for metric in RANKED)


def _amount(unit: Unit, metric: str, subject: str) -> float:
    if not subject:
        total = sum(costs.get(metric, 0) for costs in unit.functions.values())
        return unit.whole.get(metric, total)
    if subject.startswith("@"):
        # Seconds of a caller include those of its callees: only self seconds can be summed.
        own = own_part(metric)
        mine = (costs for name, costs in unit.functions.items() if owner_alone(name) == subject[1:])
        return sum(costs.get(own, 0) for costs in mine)
    return unit.functions.get(subject, {}).get(metric, 0)


def exactly(value: float, tasks: int) -> Estimate:
    """Return an exact number as an estimate: its bounds are the number itself."""
    return Estimate(value, value, value, samples=tasks, dispersion=0.0)


def roughly(value: float, tasks: int) -> Estimate:
    """Return the number of one window, with bounds from the drift between windows."""
    half = DRIFT * value * bound_at(MANY)
    return Estimate(value, max(0.0, value - half), value + half, samples=tasks, dispersion=0.0)


def per_task(metric: str, amounts: Sequence[float], tasks: Sequence[int]) -> Estimate:
    """Return the ratio `sum(amounts) / sum(tasks)` over rounds, with bounds if it is timed."""
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
    """Half width of the interval, from the scatter between rounds."""
    squares = sum((amount - value * count) ** 2 for amount, count in rounds)
    tasks = sum(count for _, count in rounds)
    deviation = sqrt(squares * len(rounds) / (len(rounds) - 1)) / tasks
    return deviation * bound_at(len(rounds) - 1)
