"""What a scheduler carries, in words and in rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor, isfinite, log10
from typing import NamedTuple

from pytest_schedprof.model.capacity import (
    AtSize,
    ByLoad,
    Capacity,
    Carried,
    Change,
    Forecast,
    Growth,
    Load,
    Most,
    Saturation,
    Sweeps,
)
from pytest_schedprof.model.metric import BYTES, TIME, Metric, readable
from pytest_schedprof.model.words import listed
from pytest_schedprof.presentation.amounts import Fact

SECONDS, SIZE = Metric(TIME, ""), Metric(BYTES, "")

NEVER = "no number"

MOST_FUNCTIONS = 2
"""How many functions are named that do something for each worker."""

FULL = 0.85
"""Part of a core from which on a scheduler counts as busy without pause."""

HEADS = ("workers", "measured", "by the law", "bounds", "tasks/s", "stall", "lag", "memory")


class SizeRow(NamedTuple):
    """Figures at one number of workers."""

    workers: str
    measured: str
    cost: str
    bounds: str
    rate: str
    stall: str
    lag: str
    memory: str


def about(number: float) -> str:
    """Return a number of two digits, as people say it; of a small one all digits."""
    if not isfinite(number):
        return NEVER
    digits = 1 - floor(log10(number)) if number >= 1 else 0
    return f"{round(number, min(0, digits)):,.0f}"


def between(forecast: Forecast) -> str:
    """Return the bounds of a number."""
    low, high = about(forecast.low), about(forecast.high)
    return f"at least {low}" if high == NEVER else f"{low} to {high}"


def time_of(seconds: float) -> str:
    """Return a time for people."""
    return readable(seconds, SECONDS)


def facts_of(of: Capacity) -> list[Fact]:
    """Return what was measured, and where."""
    return [
        Fact("workload", f"{of.workload} on {of.cluster} clusters"),
        Fact("tasks", f"{of.tasks_a_thread} a thread" if of.tasks_a_thread else "as recorded"),
        Fact("threads a worker", str(of.threads_a_worker)),
        Fact("machine", of.machine),
        Fact("measured", f"{of.measured_at}, in {of.seconds:.0f} s"),
    ]


def title_of(side: Carried) -> str:
    """Return what a side is."""
    found = f"distributed {side.measured.distributed}, Python {side.measured.python}"
    return f"{found} ({side.measured.name})" if side.measured.name else found


def rows_of(side: Carried) -> list[SizeRow]:
    """Return a row for each size, measured or forecast."""
    return [_row(side, each) for each in side.sizes]


def _row(side: Carried, at: AtSize) -> SizeRow:
    here = [each.cost for each in side.measured.workers if each.workers == at.workers]
    return SizeRow(
        workers=f"{at.workers:,}",
        measured=", ".join(time_of(each) for each in here),
        cost=time_of(at.cost.value),
        bounds=f"{time_of(at.cost.low)} to {time_of(at.cost.high)}",
        rate=about(1 / at.cost.value),
        stall=time_of(at.stall.value),
        lag=time_of(at.lag.value),
        memory=readable(at.memory.value, SIZE),
    )


def sentences(of: Capacity) -> Iterator[str]:
    """Yield what a planner wants to know of the scheduler of this side."""
    side = of.sides[0]
    yield _of_cost(side)
    if (sweeps := side.measured.sweeps) and sweeps.bytecodes:
        yield _of_sweeps(sweeps)
    if by_load := side.measured.by_load:
        yield _of_load(by_load, side)
    yield from (_of_saturation(each, side) for each in side.saturation)
    yield from (_of_most(each) for each in side.most)
    yield _verdict(side)
    if side.growth:
        yield _of_growth(side.growth)
    for there, change in zip(of.sides[1:] * len(of.changes), of.changes, strict=True):
        yield _of_change(change, there.measured.name or title_of(there))


def _of_cost(side: Carried) -> str:
    return (
        f"A task costs the scheduler {side.law}. One core carries {about(side.rate)} tasks a "
        f"second at the most, with {side.rate_at:,} workers."
    )


def _of_sweeps(of: Sweeps) -> str:
    """Tell what is done for each worker, and how much longer that takes if they are many."""
    first, last = of.looks[0], of.looks[-1]
    return (
        f"For one task it does something for each worker, {of.bytecodes:.2g} bytecodes in "
        f"{listed([*of.functions[:MOST_FUNCTIONS]])}: one takes "
        f"{1e9 * min(first.seconds):.0f} ns with {first.workers:,} workers and "
        f"{1e9 * min(last.seconds):.0f} ns with {last.workers:,}, because of the processor's "
        "caches."
    )


BROKEN = {
    "stall": "the event loop stalled too long",
    "lag": "the event loop lagged too much",
    "late": "graphs ended later and later",
}


def _of_load(of: ByLoad, side: Carried) -> str:
    """Tell the rate that was found by raising the load, beside the one that follows from costs."""
    (derived,) = (1 / each.cost.value for each in side.sizes if each.workers == of.workers)
    told = f"By load: with {of.workers:,} workers it "
    if not of.rate:
        lowest = min(each.asked for each in of.loads)
        return f"{told}carried none of the rates from {about(lowest)} tasks a second on."
    told += (
        f"carried {about(of.rate)} tasks a second, {of.rate / derived:.0%} of what follows from "
        "the cost of a task there"
    )
    if of.failed is None:
        return f"{told}; nothing that was tried was too much."
    failed = next(each for each in of.loads if each.asked == of.failed and each.broken)
    return f"{told}; with {about(of.failed)} {BROKEN[failed.broken]}{_whose(failed)}."


def _whose(of: Load) -> str:
    """Tell whether it was the scheduler that had no time left."""
    told = f", while it needed {of.busy:.0%} of a core"
    if of.broken == "late" and of.busy < FULL:
        return f"{told}: workers, client or other processes of this machine were the limit"
    return told


def _of_saturation(of: Saturation, side: Carried) -> str:
    seconds = "one second" if of.seconds == 1 else time_of(of.seconds)
    most = max(each.threads for each in side.measured.workers)
    least = min(each.threads for each in side.measured.workers)
    beyond = "" if least <= of.threads.value <= most else ", a forecast"
    return (
        f"Tasks of {seconds}: saturated at about {about(of.threads.value)} threads "
        f"({between(of.threads)}{beyond})."
    )


def _of_most(of: Most) -> str:
    if not isfinite(of.workers.value):
        told = f"The {WORDS[of.what]} stays below {time_of(of.bound)}"
        return f"{told} with up to ten million workers, by its law{_as_measured(of)}."
    return (
        f"The {WORDS[of.what]} passes {time_of(of.bound)} with about {about(of.workers.value)} "
        f"workers ({between(of.workers)}){_as_measured(of)}."
    )


def _as_measured(of: Most) -> str:
    if of.kept and of.passed:
        return f"; measured: kept with {of.kept:,}, passed with {of.passed:,}"
    if of.passed:
        return f"; measured: passed with {of.passed:,} already"
    return f"; measured: kept with {of.kept:,}"


WORDS = {
    "stall": "longest stall of the event loop",
    "lag": "longest lag of the event loop",
}


def first_bound(side: Carried) -> Most | None:
    """Return the bound that is passed with the fewest workers; None if none ever is."""
    found = [each for each in side.most if isfinite(each.workers.value)]
    return min(found, key=lambda each: each.workers.value, default=None)


def _verdict(side: Carried) -> str:
    found = first_bound(side)
    if found is None:
        return "So no bound limits the number of workers."
    return f"So it carries about {about(found.workers.value)} workers: the {found.what} is first."


def _of_growth(growth: tuple[Growth, ...]) -> str:
    told = [
        f"{_power(each.exponent.value)} ({_power(each.exponent.low)} to "
        f"{_power(each.exponent.high)}) with "
        f"{each.what} from {each.least:,} to {each.most:,}"
        for each in growth
    ]
    return f"The cost of a task grows with an exponent of {listed(told)}; 0 is no growth."


def _power(exponent: float) -> str:
    return f"{round(exponent, 2) + 0.0:.2f}"  # so that there is no -0.00


def _of_change(of: Change, there: str) -> str:
    return (
        f"With {of.workers:,} workers a task costs {of.ratio.value:.2f} times "
        f"({of.ratio.low:.2f} to {of.ratio.high:.2f}) what it costs with {there}."
    )
