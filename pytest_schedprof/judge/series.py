"""Series of figures from the results of many runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import pi, sqrt
from statistics import median
from typing import TypeAlias

from msgspec import Struct, field

from pytest_schedprof.judge.change_points import NEIGHBOURS, scatter, steps_in
from pytest_schedprof.judge.estimate import OF_EACH_RUN, Figure, critical
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.metric import CPU, METRICS, PERCENT, SELF, SHARE, Subject, own_part
from pytest_schedprof.model.profile import compile_pattern
from pytest_schedprof.model.result import (
    BackendResult,
    FunctionCost,
    MeasuredCosts,
    Result,
    SampledShares,
)
from pytest_schedprof.model.run import Moment, Point, Series, Setting
from pytest_schedprof.store.runs import Archive, KeptRun, results_of

LEAST_PART = 0.05
"""Part of all samples or costs. A function that never reached it has no series unless asked for."""

LEAST_EXACT = 0.005
LEAST_TIMED = 0.05
LEAST_SHARE = 0.02
"""Smallest change to report: a fraction of exact and timed figures, a difference of shares."""

NEWEST_RUNS = 200
"""Runs to read by default: the time to find change points is quadratic in their number."""

Name: TypeAlias = tuple[str, str]
"""Metric and subject of a series."""


class Amount(Struct, frozen=True):
    """One figure of a backend."""

    value: float
    part: float = 1.0
    """Its part of the total of this metric; 1 for figures that are always shown."""


class Choice(Struct, frozen=True):
    """The series that a user asked for."""

    test: str = "*"
    metrics: Collection[str] = field(default=())
    """Empty for all that histories show without being asked."""
    function: str = ""
    """A pattern. If given, only matching functions have series, also small ones."""

    def wants(self, metric: str, subject: str) -> bool:
        """Whether the user asked for this series."""
        if self.function:
            is_one = ":" in subject and compile_pattern(self.function).fullmatch(subject)
            if not is_one:
                return False
        return metric in self.metrics if self.metrics else not METRICS[metric].is_extra


Night: TypeAlias = tuple[Moment, Mapping[Name, Amount]]
"""What one run measured in one setting."""


def series_in(archive: Archive, runs: Sequence[KeptRun], choice: Choice) -> Iterator[Series]:
    """Yield the chosen series of runs in the order of their commits, one test after the other."""
    matches = compile_pattern(choice.test).fullmatch
    tests = {test_id for stored in runs for test_id in stored.files}
    for test_id in sorted(filter(matches, tests)):
        nights = _nights(archive, runs, test_id)
        for setting in sorted(nights):
            yield from _series(setting, nights[setting], choice)


def _nights(
    archive: Archive, runs: Sequence[KeptRun], test_id: str
) -> Mapping[Setting, list[Night]]:
    """Return what all runs measured of a test in each setting."""
    nights: dict[Setting, list[Night]] = defaultdict(list)
    for run, result in results_of(runs, test_id, archive.skipped):
        if result.is_usable:
            version = result.environment.versions.get("distributed", "")
            moment = Moment(run.run_id, run.started_at, run.commit, version)
            for setting, amounts in _settings(result):
                nights[setting].append((moment, amounts))
    return nights


def _settings(result: Result) -> Iterator[tuple[Setting, dict[Name, Amount]]]:
    """Yield the settings of a result with their figures. Exact figures are comparable between
    machines, others are not, so they belong to different settings."""
    cluster, environment = result.cluster, result.environment
    for backend in result.backends:
        amounts = dict(amounts_of(backend))
        for is_exact in (True, False):
            setting = Setting(
                result.test_id,
                backend.backend,
                backend.mode,
                environment.minor_python,
                cluster.kind,
                cluster.workers,
                backend.window.scales,
                "" if is_exact else environment.scheduler_machine,
                backend.window.rounds > max(1, len(backend.window.scales)),
            )
            yield setting, {n: amounts[n] for n in amounts if METRICS[n[0]].is_exact == is_exact}


def _series(setting: Setting, nights: list[Night], choice: Choice) -> Iterator[Series]:
    names = {name for _, amounts in nights for name in amounts if choice.wants(*name)}
    large = [
        name
        for name in names
        if choice.function
        or any(name in amounts and amounts[name].part >= LEAST_PART for _, amounts in nights)
    ]
    # The level of the test for change points is divided over all series of the group.
    siblings = Counter(_place(name)[:2] for name in large)
    for name in sorted(large, key=_place):
        figures = tuple(_figures(nights, name))
        relative, absolute = least_change(name[0])
        steps = steps_in(
            [figure.value for figure in figures],
            relative=relative,
            absolute=absolute,
            siblings=siblings[_place(name)[:2]],
        )
        yield Series(setting, *name, figures, steps)


def _place(name: Name) -> tuple[int, int, str]:
    """Sort key: the scheduler as a whole, then owners, then functions."""
    metric, subject = name
    return PLACES[metric], bool(subject) + (":" in subject), subject


PLACES = {metric: place for place, metric in enumerate(METRICS)}


def _figures(nights: Iterable[Night], name: Name) -> Iterator[Point]:
    """Yield the figures of a series; a function that was not called in a run has the figure 0."""
    for moment, amounts in nights:
        if name in amounts:
            yield Point(moment, amounts[name].value)
        elif name[1] and any(metric == name[0] for metric, _ in amounts):
            yield Point(moment, 0.0)


def least_change(metric: str) -> tuple[float, float]:
    """Smallest change to report, as a fraction and as an amount."""
    if METRICS[metric].units is PERCENT:
        return 0.0, LEAST_SHARE
    return (LEAST_EXACT if METRICS[metric].is_exact else LEAST_TIMED), 0.0


def amounts_of(backend: BackendResult) -> Iterator[tuple[Name, Amount]]:
    """Yield every figure of a backend's result."""
    tasks = backend.window.tasks
    if backend.shares:
        # Backends that do not sample slow the scheduler, so CPU time under them is not comparable.
        if cost := backend.window.cpu_us_per_task:
            yield (CPU, ""), Amount(cost * 1e-6)
        if backend.shares.busy_samples:
            yield from _shares(backend.shares)
    if backend.costs:
        yield from _costs(backend.costs, tasks)


def _shares(shares: SampledShares) -> Iterator[tuple[Name, Amount]]:
    for owner in shares.owners:
        yield (SHARE, f"@{owner.owner}"), Amount(owner.share.value)
    for row in shares.functions:
        yield (SHARE, row.function), Amount(row.share.value, row.share.value)
        yield (SELF, row.function), Amount(row.self_share.value, row.self_share.value)


def _costs(costs: MeasuredCosts, tasks: int) -> Iterator[tuple[Name, Amount]]:
    for metric, row in METRICS.items():
        divisor = 1 if row.is_peak else tasks
        if not divisor or row.is_sampled:
            continue
        if metric in costs.whole:
            yield (metric, ""), Amount(costs.whole[metric] / divisor)
        functions = [cost for cost in costs.functions if metric in cost.total]
        if functions:
            is_summed = metric not in costs.whole
            yield from _of_functions(metric, functions, costs.folded, divisor, is_summed=is_summed)


def _of_functions(
    metric: str,
    functions: Collection[FunctionCost],
    folded: Collection[FunctionCost],
    divisor: int,
    *,
    is_summed: bool,
) -> Iterator[tuple[Name, Amount]]:
    # Seconds of a caller include those of its callees: only self seconds can be summed.
    own = own_part(metric)
    owners: dict[str, float] = defaultdict(float)
    for cost in functions:
        owners[cost.owner] += cost.total.get(own, 0)
    together = sum(owners.values())
    if is_summed and Subject.WHOLE in METRICS[metric].subjects:
        yield (metric, ""), Amount(together / divisor)
    for owner, amount in owners.items() if Subject.OWNERS in METRICS[metric].subjects else ():
        yield (metric, f"@{owner}"), Amount(amount / divisor)
    for cost in (*functions, *folded):
        if metric in cost.total:
            part = cost.total.get(own, 0) / together if together else 0.0
            yield (metric, cost.function), Amount(cost.total[metric] / divisor, part)


LEAST_RUNS = 10
"""Fewer runs do not show how much a figure varies between them."""

OF_LEVEL = 20
"""Runs whose median is the level. After a step, half as many runs pass until the level follows."""

RUNS_PER_FREEDOM = 3
"""A quantile of differences estimates a scatter as well as a third of as many values would."""

APART = (1, 2)
"""Distances of the runs whose differences show the scatter: noise that lasts from run to run makes
neighbours alike."""

DEPARTURES = 2.0
"""Standard deviations in the largest departure of a count in ten runs or more."""


def usual(values: Sequence[float]) -> Figure:
    """Return the median of the runs before the newest one, with the standard error of the
    difference between it and one run.

    Args:
        values: one for each run, the newest last; `LEAST_RUNS` at least.
    """
    level = values[:-1][-OF_LEVEL:]
    of_median = pi / 2 / len(level)
    error = scatter_of_runs(values) * sqrt(1 + of_median)
    return Figure(median(level), error, max(1, len(values) // RUNS_PER_FREEDOM))


def counts_from(level: Figure, chance: float = OF_EACH_RUN) -> float:
    """Return the smallest change from the usual level that counts, if two runs show it.

    Args:
        chance: that noise alone shows it in one run; smaller if many figures are judged together.
    """
    return level.error * critical(min(OF_EACH_RUN, chance), level.freedom)


def departure(values: Sequence[float]) -> float:
    """Return how far any run departed from the runs around it, and came back.

    A step is no departure, because it stays; so the last runs do not count yet. An exact figure has
    none, however often its code was changed.
    """
    if min(values) == max(values):
        return 0.0
    around = range(len(values) - NEIGHBOURS + 1)
    windows = (values[place : place + NEIGHBOURS] for place in around)
    return max((abs(near[NEIGHBOURS // 2] - median(near)) for near in windows), default=0.0)


def scatter_of_count(values: Sequence[float]) -> float:
    """Return the standard deviation of a count between runs: 0 if no run departed."""
    departed = departure(values)
    return max(departed / DEPARTURES, scatter_of_runs(values)) if departed else 0.0


def scatter_of_runs(values: Sequence[float]) -> float:
    """Return the standard deviation between runs. A step in the series does not raise it."""
    return max(scatter(values, apart) for apart in APART)


def figures_of(result: Result) -> dict[str, dict[str, float]]:
    """Return the figures of the scheduler as a whole in a test."""
    return {
        label_of(backend): {
            metric: amount.value for (metric, subject), amount in amounts_of(backend) if not subject
        }
        for backend in result.backends
    }


def label_of(measured: BackendResult | Comparison | Setting) -> str:
    """Return the backend's name, with options that change what its figures mean."""
    return f"{measured.backend} ({measured.mode})" if measured.mode else measured.backend
