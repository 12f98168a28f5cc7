"""What each function cost in a kept result, read from its record and the files beside it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isclose
from pathlib import Path

from msgspec import Struct

from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.formats.counted import CountsFile, read_counts
from pytest_schedprof.judge.costs import is_line
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.model.explanation import Accounts, Cost, Source
from pytest_schedprof.model.metric import CALLS, CLIENT_BYTECODES, CPU, DIVIDED, own_part
from pytest_schedprof.model.profile import Function, is_work
from pytest_schedprof.model.result import BackendResult, FunctionCost, Result
from pytest_schedprof.store.places import Folder, inside, read_kept
from pytest_schedprof.store.sources import read_sources

COUNTS = "counts"

SUMS_UP = 1e-6
"""Relative difference up to which the costs of functions are said to sum to the whole."""


class KeptSide(Struct, frozen=True):
    """A result with the directories of its files, where these are kept."""

    result: Result
    directory: Path | None = None
    """Of the test's artifacts."""
    run: Folder | None = None
    """The run or baseline that has the sources."""

    def sources(self) -> dict[Function, Source]:
        """Return the sources that its run has of its scheduler's functions."""
        code = self.result.environment.code
        if self.run is None or not code:
            return {}
        sources = read_sources(self.run, code)
        return {name: source for name, source in sources.items() if source.text}

    def counts(self, backend: BackendResult) -> list[CountsFile]:
        """Return the files of counts of all rounds; none if one cannot be read."""
        if self.directory is None or backend.backend != COUNTS:
            return []
        with suppress(SchedprofError):
            return [
                read_counts(read_kept(inside(self.directory, name))) for name in backend.artifacts
            ]
        return []


def metrics_of(backend: BackendResult) -> list[str]:
    """Return the metrics of a backend that are divided among functions."""
    if backend.shares is not None:
        return [CPU]
    costs = backend.costs.functions if backend.costs else ()
    measured = {metric for cost in costs for metric in cost.total}
    return [metric for metric in DIVIDED if metric in measured]


def accounts_of(
    side: KeptSide, backend: BackendResult, metric: str, *, per_round: bool = False
) -> Accounts:
    """Return what each function cost by a metric, per task or per round."""
    files = side.counts(backend)
    units = _units(backend, per_round=per_round)
    totals = _from_files(files, metric) if files else _from_record(backend, metric)
    # Those that any backend of the test counted, in its own window; they are the scheduler's.
    counted = (
        _divided(_from_record(other, CALLS), _units(other, per_round=per_round))
        for other in side.result.backends
    )
    calls = _divided(_from_files(files, CALLS), units) if files else next(filter(None, counted), {})
    if metric == CLIENT_BYTECODES:
        calls = {}
    if metric == CPU:
        whole, costs = _by_samples(backend)
    else:
        whole, costs = _by_counts(backend, metric, totals, is_all=side.result.is_own_virtual)
    code = {cost.function: cost.code for cost in _named(backend)}
    known = {
        name: Cost(
            cost.amount / units,
            calls.get(name),
            cost.error / units,
            code.get(name, ""),
            cost.share,
        )
        for name, cost in costs.items()
    }
    details = (*_details(files, units), side.sources())
    names_all = bool(files) or Measurement(side.result, backend).names_all
    return Accounts(whole / units, known, *details, names_all)


def _units(backend: BackendResult, *, per_round: bool) -> int:
    """Return how many tasks or rounds share what a backend measured."""
    return max(1, backend.window.rounds if per_round else backend.window.tasks)


def _divided(totals: Mapping[Function, float], units: int) -> Mapping[Function, float]:
    return {name: total / units for name, total in totals.items()}


def _from_files(files: Sequence[CountsFile], metric: str) -> Mapping[Function, float]:
    sums: Counter[Function] = Counter()
    for file in files:
        for name, counts in file.functions.items():
            if metric in counts:
                sums[name] += counts[metric]
    return sums


def _from_record(backend: BackendResult, metric: str) -> Mapping[Function, float]:
    own = own_part(metric)
    return {cost.function: cost.total[own] for cost in _named(backend) if own in cost.total}


def _named(backend: BackendResult) -> tuple[FunctionCost, ...]:
    """Return all functions of a record; the lines of others only if it does not have these."""
    if backend.costs is None:
        return ()
    lines, folded = backend.costs.functions, backend.costs.folded
    return (*(line for line in lines if not is_line(line.function)), *folded) if folded else lines


def _by_counts(
    backend: BackendResult, metric: str, totals: Mapping[Function, float], *, is_all: bool
) -> tuple[float, Mapping[Function, Cost]]:
    """Return the whole, and the functions that sum to it: those that work on tasks, or all."""
    work = {name: total for name, total in totals.items() if is_work(name)}
    whole = backend.costs.whole.get(metric) if backend.costs and not is_all else None
    chosen = work if whole and isclose(sum(work.values()), whole, rel_tol=SUMS_UP) else totals
    if whole is None:
        whole = sum(chosen.values())
    return whole, {name: Cost(total) for name, total in chosen.items()}


def _by_samples(backend: BackendResult) -> tuple[float, Mapping[Function, Cost]]:
    """Return the scheduler's CPU time and that of its functions, by their own shares of it."""
    seconds = backend.window.cpu_seconds
    busy = seconds * (backend.shares.busy_part if backend.shares else 0.0)
    functions = backend.shares.functions if backend.shares else ()
    return seconds, {
        row.function: Cost(
            row.self_share.value * busy,
            error=(row.self_share.high - row.self_share.low) / 2 * busy,
            share=row.share.value,
        )
        for row in functions
    }


def _details(
    files: Sequence[CountsFile], units: int
) -> tuple[Mapping[Function, Mapping[Function, float]], Mapping[Function, Mapping[int, float]]]:
    """Return calls by caller and instructions by line, of one task or round."""
    callers: defaultdict[Function, Counter[Function]] = defaultdict(Counter)
    lines: defaultdict[Function, Counter[int]] = defaultdict(Counter)
    for file in files:
        for callee, counts in file.callers.items():
            callers[callee].update(counts)
        for function, times in file.lines.items():
            lines[function].update(times)
    return (
        {
            callee: {caller: count / units for caller, count in counts.items()}
            for callee, counts in callers.items()
        },
        {
            function: {line: count / units for line, count in times.items()}
            for function, times in lines.items()
        },
    )
