"""Figures of one backend's window, with the standard errors that a comparison needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from math import hypot, sqrt
from statistics import median, stdev
from typing import TypeAlias

from msgspec import Struct

from pytest_schedprof.judge.costs import DRIFT, is_line
from pytest_schedprof.judge.estimate import MANY, MIN_ROUNDS, Figure
from pytest_schedprof.judge.owners import (
    COUNTED,
    NOT_SCHEDULER,
    is_used_by_all,
    owner_alone,
    owner_of_counted,
)
from pytest_schedprof.judge.series import LEAST_RUNS
from pytest_schedprof.model.explanation import Cost
from pytest_schedprof.model.limit import Estimate
from pytest_schedprof.model.metric import (
    BYTECODES,
    CALLS,
    CLIENT_BYTECODES,
    DECISIONS,
    METRICS,
    TRAFFIC,
    Subject,
    own_part,
)
from pytest_schedprof.model.profile import EVERYTHING, Function, is_of, is_work, module_of
from pytest_schedprof.model.result import (
    IN_PROCESS,
    SIDES_IN_TURNS,
    VIRTUAL,
    BackendResult,
    FunctionCost,
    Result,
)

STEADY = 0.001
"""Counts whose scatter between three or more rounds is below this are exact: a tenth of the
smallest relevant change. No function is exact by itself: the state machine also depends on which
worker was idle when, and on the order of messages."""

UNSTEADY = 0.05
"""Assumed standard deviation of a count, as a fraction, without three rounds to measure it."""

UNSTEADY_IN_PROCESS = 0.1
"""Least scatter between sessions of a count that scatters at all, in the test's own process. There
one thread runs scheduler, workers and clients, so how often a task is stolen or queued depends on
the load of the machine: between sessions of the same code under loads of 2 to 8, counts differed by
up to 49 %, though they scattered by 2 % between the rounds of one session."""

FLOOR = 1e-4
"""Part of the whole below which a change is ignored: rare events often depend on chance."""

FLOOR_IN_PROCESS = 3e-3
"""The same in the test's own process. Three rounds of one session agreed on 4 tasks of 92 that were
fetched twice (4e-4 of all bytecodes), those of another one on 32 comparisons of 40 tasks (1.4e-3);
in other sessions there were none. One message more per task is 5e-3."""

UNSTEADY_TRAFFIC = 0.2
"""Assumed standard deviation of messages and their bytes, as a fraction, with fewer than three
rounds: 2.06 and 3.01 messages per task were measured of the same code, in two rounds each. How many
are sent in one batch depends on who is busy, so rounds that agree in one session say little about
the next: with three or more rounds 5 % is assumed."""

TIMES = "distributed.scheduler:TaskGroup.add_duration"
FINISHED = "distributed.scheduler:SchedulerState._transition_processing_memory"

BY_TIMES = frozenset(
    {
        (BYTECODES, FINISHED),
        *((metric, TIMES) for metric in (CALLS, BYTECODES)),
        *(
            (metric, "distributed.scheduler:TaskPrefix.add_duration")
            for metric in (CALLS, BYTECODES)
        ),
    }
)
"""Figures of functions that go through the times that workers measured for a finished task. It has
one for the run, one for each transfer, and others if it took more than 5 ms to load what the task
needs or to store its result, by the clock: on a busy machine that may be any task."""

GUESSED = 2
"""Degrees of freedom of an error that was not measured. A single round of the same code took
three times the CPU time when the garbage collector ran, so only a large difference is a change."""

TELLING = 0.01
"""Smallest share of functions from which the usual dispersion is computed."""

Between: TypeAlias = Callable[[str, str], float]
"""Returns the standard deviation of a metric of a function, or of the whole, between runs."""


class Measurement(Struct, frozen=True, dict=True):
    """The result of one backend in one test, with the figures that are compared."""

    result: Result
    backend: BackendResult
    is_reproduced: bool = False
    """Whether both sides would count the same in each run, so that any difference is real."""
    modules: tuple[str, ...] = ()
    """Names of the modules, with wildcards, that both sides counted; all if there are none."""
    between: Between | None = None
    """How much counts vary between runs; None if too few earlier runs are known."""
    is_per_round: bool = False
    """Whether costs are of a round and not per task: both sides have one body, but other tasks."""

    @property
    def scales(self) -> tuple[int, ...]:
        return self.backend.window.scales

    @property
    def python(self) -> str:
        return self.result.environment.minor_python

    @cached_property
    def is_in_process(self) -> bool:
        """Whether the scheduler shared its process with the test, workers and clients."""
        return self.result.is_own_virtual or self.result.cluster.kind == IN_PROCESS

    @property
    def is_virtual(self) -> bool:
        return self.result.is_own_virtual or self.result.cluster.kind == VIRTUAL

    @property
    def graphs(self) -> tuple[str, ...]:
        """Hashes of the graphs that clients sent in each segment; empty if not in virtual time."""
        return tuple(segment.graphs for segment in self.backend.window.segments)

    @cached_property
    def is_everything(self) -> bool:
        """Whether all code was counted, so that the sums are of the functions that work on tasks,
        and functions that cost little have one line for each module."""
        modules = self.backend.settings.get("modules")
        return isinstance(modules, list) and EVERYTHING in modules

    @property
    def floor(self) -> float:
        """Part of the whole below which a change of a count is ignored."""
        if self.is_reproduced:  # own clusters share what a process keeps, as tables of types
            return FLOOR if self.result.is_own_virtual else 0.0
        return FLOOR_IN_PROCESS if self.is_in_process else FLOOR

    @cached_property
    def tasks(self) -> int:
        return self.backend.window.tasks

    def exact(self, metric: str) -> dict[Function, Figure]:
        """Return the count per task of every function of the scheduler."""
        if metric not in self._exact:
            functions = self.backend.costs.functions if self.backend.costs else ()
            self._exact[metric] = self._counts(metric, functions)
        return self._exact[metric]

    @cached_property
    def _exact(self) -> dict[str, dict[Function, Figure]]:
        return {}

    def folded(self, metric: str) -> dict[Function, Figure] | None:
        """Return the same of functions that are in lines of others; None if it is not known."""
        if not self.names_all:
            return None
        return self._counts(metric, self.backend.costs.folded if self.backend.costs else ())

    def _counts(self, metric: str, costs: Iterable[FunctionCost]) -> dict[Function, Figure]:
        if not self._units:
            return {}
        divided, units = METRICS[metric].divided, self._units
        return {
            cost.function: self._count(
                metric,
                cost.function,
                divided(cost.total[metric], units),
                cost.scatter.get(metric),
                is_carrier=self.is_everything and not is_work(cost.function),
            )
            for cost in costs
            if metric in cost.total and (metric == CLIENT_BYTECODES or self._is_compared(cost))
        }

    def accounts(self, metric: str) -> dict[Function, Cost]:
        """Return what every function cost by itself per task, however little that is."""
        measured = self.backend.costs
        if measured is None or not self._units:
            return {}
        own, is_of_client = own_part(metric), metric == CLIENT_BYTECODES
        return {
            cost.function: Cost(
                cost.total[own] / self._units,
                cost.total[CALLS] / self._units
                if CALLS in cost.total and not is_of_client
                else None,
                code=cost.code,
            )
            for cost in (*measured.functions, *measured.folded)
            if own in cost.total
            and not is_line(cost.function)
            and (is_of_client or self._is_compared(cost))
        }

    @property
    def names_all(self) -> bool:
        """Whether every function that ran is named; of some callgrind keeps only sums."""
        costs = self.backend.costs
        return (
            costs is None
            or bool(costs.folded)
            or not any(is_line(cost.function) for cost in costs.functions)
        )

    @cached_property
    def _units(self) -> int:
        """Return how many tasks or rounds share the costs."""
        return self.backend.window.rounds if self.is_per_round else self.tasks

    def _is_compared(self, cost: FunctionCost) -> bool:
        """Whether each run of a side has this count: the scheduler's, and anybody's in turns."""
        if self.modules and not is_of(module_of(cost.function), self.modules):
            return False
        if self.result.is_own_virtual:
            return cost.owner not in NOT_SCHEDULER - SIDES_IN_TURNS
        return self._is_schedulers(cost.function, cost.owner)

    def _is_schedulers(self, function: Function, owner: str) -> bool:
        """Whether the scheduler made all calls of a function."""
        is_shared = self.is_in_process and is_used_by_all(function)
        is_tests = self.result.is_own_virtual and owner in COUNTED
        return owner not in NOT_SCHEDULER and not (is_shared or is_tests)

    def whole(self, metric: str) -> Figure | None:
        """Return the figure of the scheduler as a whole, None if the backend has none."""
        if self.backend.costs is None or not self._units:
            return None
        is_sum = self.is_everything and Subject.FUNCTIONS in METRICS[metric].subjects
        if metric in self.backend.costs.whole and not is_sum:
            value = METRICS[metric].divided(self.backend.costs.whole[metric], self._units)
            return self._count(metric, "", value, self.backend.costs.scatter.get(metric))
        is_of_client = metric == CLIENT_BYTECODES
        parts = [
            figure
            for name, figure in self.exact(metric).items()
            if not self.is_everything or is_work(name)
            if is_of_client or self._is_schedulers(name, owner_of_counted(name))
        ]
        # Not the root of the squares: how messages were batched, and the load where the test's own
        # process runs the scheduler, move many functions together.
        error = sum(part.error for part in parts)
        value = sum(part.value for part in parts)
        if metric in self.backend.costs.whole and not (self.modules or self.is_in_process):
            # A line of others may have functions of both kinds.
            value = METRICS[metric].divided(self.backend.costs.whole[metric], self._units)
        if self.between and parts:
            return self._by_past(metric, "", value, 0.0)
        return Figure(value, error, min(part.freedom for part in parts)) if parts else None

    def _count(
        self,
        metric: str,
        subject: str,
        value: float,
        scatter: float | None,
        *,
        is_carrier: bool = False,
    ) -> Figure:
        rounds = self._rounds
        if metric in DECISIONS or self.is_reproduced:
            return Figure(value)
        if self.between:
            return self._by_past(metric, subject, value, scatter or 0.0)
        if metric in TRAFFIC or is_carrier:
            least = UNSTEADY if rounds >= MIN_ROUNDS else UNSTEADY_TRAFFIC
            return Figure(value, value * max(scatter or 0.0, least), max(1, rounds - 1))
        by_clocks = self._by_clocks if (metric, subject) in BY_TIMES else 0.0
        if scatter is None or rounds < MIN_ROUNDS:
            usual = UNSTEADY_IN_PROCESS if self.is_in_process else UNSTEADY
            return Figure(value, value * max(scatter or 0.0, usual, by_clocks))
        if scatter < STEADY and not by_clocks:
            return Figure(value)
        least = max(by_clocks, UNSTEADY_IN_PROCESS if self.is_in_process else 0.0)
        return Figure(value, value * max(scatter / sqrt(rounds), least), rounds - 1)

    def _by_past(self, metric: str, subject: str, value: float, scatter: float) -> Figure:
        """Return a count with the error that earlier runs show, or these rounds if it is larger."""
        assert self.between
        between = self.between(metric, subject)
        within = value * scatter / sqrt(self._rounds)
        if between < STEADY * value and scatter < STEADY:
            return Figure(value)
        runs = LEAST_RUNS if between >= within else self._rounds
        return Figure(value, max(between, within), max(1, runs - 1))

    @cached_property
    def _by_clocks(self) -> float:
        """Part of the times of tasks that workers need not have measured: all but one for each."""
        costs = self.backend.costs
        assert costs
        calls = {cost.function: cost.total.get(CALLS, 0.0) for cost in costs.functions}
        times, tasks = calls.get(TIMES, 0.0), calls.get(FINISHED, 0.0)
        return max(0.0, 1 - tasks / times) if times and tasks else 0.0

    @property
    def shows_scatter(self) -> bool:
        """Whether there are enough rounds to tell how much figures vary between them."""
        return self._rounds >= MIN_ROUNDS

    def wavering(self, metric: str) -> dict[str, float]:
        """Return how much the count per task of each function varies between rounds.

        It is the standard deviation; the whole is the empty name. Nothing is known of fewer than
        three rounds.
        """
        costs = self.backend.costs
        if costs is None or not self._units or not self.shows_scatter:
            return {}
        named = (*costs.functions, *costs.folded)
        parts = [(cost.function, cost.total, cost.scatter) for cost in named]
        divided, units = METRICS[metric].divided, self._units
        return {
            subject: divided(total[metric], units) * scatter[metric]
            for subject, total, scatter in [*parts, ("", costs.whole, costs.scatter)]
            if metric in total and metric in scatter
        }

    @cached_property
    def _rounds(self) -> int:
        window = self.backend.window
        return window.rounds // max(1, len(window.scales))

    @cached_property
    def metrics(self) -> list[str]:
        """Exact metrics that the backend measured."""
        costs = self.backend.costs
        if costs is None:
            return []
        measured = set(costs.whole).union(*(cost.total for cost in costs.functions))
        return [name for name, metric in METRICS.items() if metric.is_exact and name in measured]

    @cached_property
    def cpu(self) -> Figure:
        """CPU time of the scheduler, with an error from the rounds if there are enough."""
        value = self.backend.window.cpu_seconds / self._units if self._units else 0.0
        rounds = self.cpu_of_rounds
        if len(rounds) < MIN_ROUNDS:
            return Figure(value, value * DRIFT, GUESSED)
        return Figure(value, stdev(rounds) / sqrt(len(rounds)), len(rounds) - 1)

    @cached_property
    def cpu_of_rounds(self) -> list[float]:
        """CPU time of each round; empty if the test runs at several scales, or if it is not known
        which segments are of one round."""
        window = self.backend.window
        size, others = divmod(len(window.segments), max(1, window.rounds))
        if len(window.scales) > 1 or others or not size:
            return []
        rounds = [window.segments[at : at + size] for at in range(0, len(window.segments), size)]
        sums = [
            (sum(part.cpu_seconds for part in parts), sum(part.tasks for part in parts))
            for parts in rounds
        ]
        if self.is_per_round:
            return [seconds for seconds, _ in sums]
        return [seconds / tasks for seconds, tasks in sums if tasks]

    @property
    def samples(self) -> int:
        return self.backend.shares.busy_samples if self.backend.shares else 0

    @property
    def busy(self) -> float:
        """Part of the samples that are busy samples of the scheduler."""
        return self.backend.shares.busy_part if self.backend.shares else 0.0

    @cached_property
    def shares(self) -> dict[str, Estimate]:
        """Shares of every function and of every `@owner`."""
        if self.backend.shares is None:
            return {}
        of_functions = {row.function: row.share for row in self.backend.shares.functions}
        return of_functions | {
            f"@{owner.owner}": owner.share for owner in self.backend.shares.owners
        }

    @cached_property
    def self_shares(self) -> dict[Function, Estimate]:
        if self.backend.shares is None:
            return {}
        return {row.function: row.self_share for row in self.backend.shares.functions}

    def share(self, subject: str, typical: float) -> Figure:
        """Return a share; `typical` is the pooled share of both sides, which gives its error."""
        shares, share = self.backend.shares, self.shares.get(subject)
        if shares is None or not shares.busy_samples:
            return Figure(0.0, 1.0, 1)
        value, ratio = (share.value, share.dispersion) if share else (0.0, 0.0)
        freedom = shares.freedom or 1
        if ratio <= self._usual_ratio:
            ratio, freedom = self._usual_ratio, MANY
        return Figure(
            value, ratio * sqrt(max(typical * (1 - typical), 1e-9) / shares.busy_samples), freedom
        )

    def share_value(self, subject: str) -> float:
        """Return a share; 0 if the function was not seen."""
        return self.shares[subject].value if subject in self.shares else 0.0

    def cost_value(self, subject: str) -> float:
        """Return the CPU time per task of a function or an owner."""
        return self.share_value(subject) * self.busy * self.cpu.value

    def sampling_error(self, typical: float) -> float:
        """Return the standard error of a share of this size, by the usual dispersion."""
        return self._usual_ratio * sqrt(typical * (1 - typical) / max(1, self.samples))

    @cached_property
    def _usual_ratio(self) -> float:
        """Median dispersion of functions with a share large enough to measure it.

        A few rounds estimate the dispersion of one function badly, and that of all functions well:
        a lower dispersion of one function is chance.
        """
        ratios = [share.dispersion for share in self.shares.values() if share.value >= TELLING]
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
