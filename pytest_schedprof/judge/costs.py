"""Costs per task: exact costs without bounds, timed costs with bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, reduce
from math import log, sqrt
from statistics import fmean, stdev
from typing import TypeAlias

from msgspec import Struct, field

from pytest_schedprof.judge.estimate import MANY, MIN_ROUNDS, bound_at
from pytest_schedprof.judge.owners import (
    doubt_of_collector,
    others_of,
    owner_alone,
    owner_of_counted,
    owner_of_others,
)
from pytest_schedprof.model.limit import Estimate
from pytest_schedprof.model.metric import CLIENT_BYTECODES, METRICS, RANKED, Subject, own_part
from pytest_schedprof.model.profile import (
    BODY,
    OTHERS,
    CostProfile,
    Function,
    compile_pattern,
    is_work,
)
from pytest_schedprof.model.result import FunctionCost, MeasuredCosts

MIN_SCALES = 2
"""A line cannot be fitted to fewer points."""

MOST = 99.0
"""Upper bound of an exponent that cannot be bounded."""

DIGITS = 9
"""Digits to which an exponent is rounded: further ones are rounding errors of logarithms."""


def exponent(points: Sequence[tuple[int, float]], tasks: int, drift: float) -> Estimate:
    """Fit the `b` of `amount = a * scale ** b` by least squares of the logarithms.

    Args:
        points: scales and amounts. If the amount is 0 at some scales only, the exponent has no
            upper bound.
        tasks: number of tasks, kept in the estimate.
        drift: standard deviation of an amount between identical windows, as a fraction of it;
            0 for an exact amount.
    """
    logs = [(log(scale), log(amount)) for scale, amount in points if amount > 0]
    if logs and len(logs) < len(points):
        return Estimate(0.0, 0.0, MOST, tasks, 0.0)
    middle = fmean(x for x, _ in logs) if logs else 0.0
    spread = sum((x - middle) ** 2 for x, _ in logs)
    if not spread:
        return Estimate(0.0, 0.0, 0.0, tasks, 0.0)
    slope = round(sum((x - middle) * y for x, y in logs) / spread, DIGITS)
    half = _half_width_of_slope(logs, middle, slope, spread, drift) if drift else 0.0
    return Estimate(slope, slope - half, slope + half, tasks, 0.0)


def _half_width_of_slope(
    logs: Sequence[tuple[float, float]], middle: float, slope: float, spread: float, drift: float
) -> float:
    """Half width of the interval: from the scatter around the line, or the drift if larger."""
    height = fmean(y for _, y in logs)
    left = sum((y - height - slope * (x - middle)) ** 2 for x, y in logs)
    freedom = max(1, len(logs) - 2)
    deviation = max(drift, sqrt(left / freedom)) / sqrt(spread)
    return deviation * bound_at(freedom if len(logs) > MIN_SCALES else MANY)


KEPT = 0.0005
"""Part of the whole from which a function has a line of its own."""


def line_of(function: Function) -> Function:
    """Return the line of the other functions of a function's module.

    Imported modules have one line for each package: there are hundreds.
    """
    module, _, name = function.partition(":")
    if name == BODY:
        return f"{module.partition('.')[0]}:{BODY}"
    line, owner = f"{module}:{OTHERS}", owner_of_counted(function)
    return line if owner_of_counted(line) == owner else f"{module}:{others_of(owner)}"


def is_line(function: Function) -> bool:
    """Whether this is the line of a module's other functions."""
    return owner_of_others(function) is not None


def folded(
    functions: Mapping[Function, Mapping[str, float]], named: Collection[Function] = ()
) -> dict[Function, list[Function]]:
    """Return the lines of a record, each with the functions in it.

    Args:
        functions: all functions and their costs.
        named: functions that have a line of their own, however little they cost.
    """
    least = {metric: KEPT * total for metric, total in totals(functions).items()}
    lines: dict[Function, list[Function]] = defaultdict(list)
    for function, costs in functions.items():
        is_kept = any(amount >= least[metric] for metric, amount in costs.items() if amount)
        lines[function if is_kept or function in named else line_of(function)].append(function)
    return dict(lines)


def totals(functions: Mapping[Function, Mapping[str, float]]) -> dict[str, float]:
    """Return the sum of each metric over the functions that work on tasks."""
    sums: dict[str, float] = defaultdict(float)
    for function, costs in functions.items():
        for metric, amount in costs.items():
            sums[metric] += amount * is_work(function)
    return sums


DRIFT = 0.1
"""Standard deviation of a timed cost or a peak between identical windows, as a fraction of it.
It depends on the machine, not on the backend; docs/statistics.md says where it was measured."""

Amounts: TypeAlias = dict[str, float]
"""Costs by metric."""


class Unit(Struct, frozen=True):
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
    is_everything: bool = False
    """Whether it has all code that the scheduler ran, and no other."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Metrics and functions that could not be measured, each with the reason."""
    code: Mapping[Function, str] = field(default_factory=dict)
    """Digests of the code of functions, where they are known."""


def unit_of(
    tasks: int, whole: Mapping[str, float], profiles: Iterable[CostProfile], scale: int = 0
) -> Unit:
    """Add up the costs of one round; `whole` are the costs that the scheduler itself counts."""
    functions: dict[Function, Amounts] = defaultdict(dict)
    together = dict(whole)
    doubt = hides = ""
    is_everything = False
    lacks: dict[str, str] = {}
    code: dict[Function, str] = {}
    for profile in profiles:
        lacks |= profile.lacks
        code |= profile.code
        doubt, hides = doubt or profile.doubt, hides or profile.hides
        for function, costs in profile.functions.items():
            gather(functions[function], costs)
        gather(together, profile.whole)
        is_everything = is_everything or profile.is_everything
    return Unit(tasks, functions, together, doubt, hides, scale, is_everything, lacks, code)


def gather(into: Amounts, costs: Mapping[str, float]) -> None:
    """Add costs to others; of two peaks keep the higher one."""
    for metric, amount in costs.items():
        row = METRICS.get(metric)
        if metric in into:
            before = into[metric]
            amount = row.combined(before, amount) if row else before + amount
        into[metric] = amount


class Costs(Struct, frozen=True, dict=True):
    """Costs of all rounds, from which the cost of any function or owner is estimated."""

    units: Sequence[Unit]

    @property
    def tasks(self) -> int:
        return sum(unit.tasks for unit in self.units)

    @cached_property
    def functions(self) -> dict[Function, Amounts]:
        sums: dict[Function, Amounts] = defaultdict(dict)
        for unit in self.units:
            for function, costs in unit.functions.items():
                gather(sums[function], costs)
        return sums

    def seen(self, metric: str) -> Collection[Function]:
        """Return every function that was called, and the lines of functions that cost little."""
        return self.functions.keys() | self._lines.keys()

    @cached_property
    def _lines(self) -> dict[Function, list[Function]]:
        return self.lines()

    def lines(self, patterns: Collection[str] = ()) -> dict[Function, list[Function]]:
        """Return the functions in each line of the record.

        Functions that match a pattern have lines of their own; so have all, unless everything that
        the scheduler ran was counted.
        """
        if not any(unit.is_everything for unit in self.units):
            return {name: [name] for name in self.functions}
        matches = [compile_pattern(pattern).fullmatch for pattern in patterns]
        named = {name for name in self.functions if any(match(name) for match in matches)}
        return folded(self.functions, named)

    def of(self, metric: str, subject: str) -> Estimate:
        """Return the metric per task, or the highest of all rounds if it is a peak.

        What a client does without any task is per round.
        """
        amounts = [self._amount(unit, metric, subject) for unit in self.units]
        if METRICS[metric].is_peak:
            judge = exactly if METRICS[metric].is_exact else roughly
            return judge(reduce(METRICS[metric].combined, amounts), self.tasks)
        if metric == CLIENT_BYTECODES and not self.tasks:
            return exactly(fmean(amounts), 0)
        return self._per_task(metric, amounts)

    def _per_task(self, metric: str, amounts: Sequence[float]) -> Estimate:
        """Return the ratio `sum(amounts) / sum(tasks)` over rounds, with bounds if it is timed."""
        total = self.tasks
        if not total:
            return Estimate(0.0, 0.0, 0.0, samples=0, dispersion=0.0)
        value = sum(amounts) / total
        if METRICS[metric].is_exact:
            return exactly(value, total)
        of_scales: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for unit, amount in zip(self.units, amounts, strict=True):
            if unit.tasks:
                of_scales[unit.scale].append((amount, unit.tasks))
        if min(map(len, of_scales.values())) < MIN_ROUNDS:
            return roughly(value, total)
        half = _half_width(of_scales.values())
        return Estimate(value, max(0.0, value - half), value + half, samples=total, dispersion=0.0)

    def doubt(self, metric: str, subject: str) -> str:
        for unit in self.units:
            if doubt := unit.doubt or unit.lacks.get(metric) or unit.lacks.get(subject, ""):
                return doubt
            if unit.hides and ":" in subject and not self._matching(subject):
                return unit.hides
        if not all(has_figure(metric, unit.whole) for unit in self.units):
            return f"the recording has no {metric}"
        if subject.startswith("c:") and not self._matching(subject):
            return f"no C function ran that {subject!r} names; perhaps there is none"
        if METRICS[metric].own and (doubt := doubt_of_collector(subject, self.functions)):
            return doubt
        if METRICS[metric].is_peak or metric == CLIENT_BYTECODES or self.tasks:
            return ""
        return "the scheduler processed no task, and costs are per task"

    def growth(self, metric: str, subject: str) -> Estimate:
        units = [unit for unit in self.units if unit.scale]
        points = [(unit.scale, self._amount(unit, metric, subject)) for unit in units]
        return exponent(points, self.tasks, 0.0 if METRICS[metric].is_exact else DRIFT)

    def doubt_of_growth(self, metric: str, subject: str) -> str:
        if len({unit.scale for unit in self.units} - {0}) >= MIN_SCALES:
            return ""
        return "growth needs a test that runs at two scales or more, as with scale=[100, 1000]"

    def _amount(self, unit: Unit, metric: str, subject: str) -> float:
        functions = self._lines.get(subject, []) if is_line(subject) else [subject]
        return sum(_amount(unit, metric, function) for function in functions)

    def _matching(self, pattern: str) -> bool:
        matches = compile_pattern(pattern).fullmatch
        return any(matches(function) for function in self.functions)

    def measured(self, patterns: Collection[str] = ()) -> MeasuredCosts:
        """Return all costs for the record, the most expensive function first.

        Args:
            patterns: of functions that are named, even if they cost next to nothing.
        """
        lines = self.lines(patterns)
        folded = [name for line, names in lines.items() if is_line(line) for name in names]
        whole: Amounts = {}
        for unit in self.units:
            gather(whole, unit.whole)
        return MeasuredCosts(
            functions=self._sorted(self._line(*line) for line in lines.items()),
            folded=self._sorted(self._line(name, [name]) for name in folded),
            whole=whole,
            scatter=self._scatter([unit.whole for unit in self.units], whole),
        )

    def _sorted(self, costs: Iterable[FunctionCost]) -> tuple[FunctionCost, ...]:
        """Sort by the own part of the most important metric that a backend has."""
        own = [own_part(metric) for metric in RANKED]

        def order(cost: FunctionCost) -> tuple[float | str, ...]:
            return (*(-cost.total.get(metric, 0) for metric in own), cost.function)

        return tuple(sorted(costs, key=order))

    def _line(self, name: Function, functions: Sequence[Function]) -> FunctionCost:
        rounds: list[Amounts] = [{} for _ in self.units]
        total: Amounts = {}
        for function in functions:
            gather(total, self.functions[function])
            for costs, unit in zip(rounds, self.units, strict=True):
                gather(costs, unit.functions.get(function, {}))
        is_everything = any(unit.is_everything for unit in self.units)
        owner = owner_of_counted(name) if is_everything else owner_alone(name)
        code = {digest for unit in self.units for digest in unit.code.get(name, "").split()}
        return FunctionCost(
            name, owner, total, self._scatter(rounds, total), " ".join(sorted(code))
        )

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


def has_figure(metric: str, whole: Collection[str]) -> bool:
    """Return whether a record has a metric, of which no function and no owner has a part."""
    return METRICS[metric].subjects != Subject.WHOLE or metric in whole


def scatter(values: Sequence[float]) -> float:
    """Return the standard deviation as a fraction of the mean."""
    mean = fmean(values)
    return round(stdev(values) / mean, DIGITS) if mean else 0.0


def _amount(unit: Unit, metric: str, subject: str) -> float:
    if not subject:
        total = sum(costs.get(metric, 0) for costs in unit.functions.values())
        return unit.whole.get(metric, total)
    if subject.startswith("@"):
        # Seconds of a caller include those of its callees: only self seconds can be summed.
        own, owner = own_part(metric), owner_of_counted if unit.is_everything else owner_alone
        mine = (costs for name, costs in unit.functions.items() if owner(name) == subject[1:])
        return sum(costs.get(own, 0) for costs in mine)
    return unit.functions.get(subject, {}).get(metric, 0)


def exactly(value: float, tasks: int) -> Estimate:
    """Return an exact number as an estimate: its bounds are the number itself."""
    return Estimate(value, value, value, samples=tasks, dispersion=0.0)


def roughly(value: float, tasks: int) -> Estimate:
    """Return the number of one window, with bounds from the drift between windows."""
    half = DRIFT * value * bound_at(MANY)
    return Estimate(value, max(0.0, value - half), value + half, samples=tasks, dispersion=0.0)


def _half_width(groups: Collection[Sequence[tuple[float, int]]]) -> float:
    """Half width of the interval, from the scatter between the rounds of each scale."""
    squares = 0.0
    for rounds in groups:
        value = sum(amount for amount, _ in rounds) / sum(count for _, count in rounds)
        of_scale = sum((amount - value * count) ** 2 for amount, count in rounds)
        squares += of_scale * len(rounds) / (len(rounds) - 1)
    tasks = sum(count for rounds in groups for _, count in rounds)
    return sqrt(squares) / tasks * bound_at(min(map(len, groups)) - 1)
