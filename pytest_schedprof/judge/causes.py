"""The functions that explain a rise; all other figures that rose follow from them.

1. A function is taken together with those that are defined in it: comprehensions, lambdas.
2. Code under test is dask, distributed and the user's own. All other code is a library's.
3. First come functions under test whose code differs and which do more per call than before,
4. then those that did not run before: helpers that are new, whose callers do no more by themselves
   (not what carries messages, which other code makes run),
5. then those whose code differs and which do no more: what they call may run more often,
6. then functions of libraries whose code differs and which do more per call.
7. If no code differs, it is the function under test that does most more per call,
8. or else the one that costs most more because it is called more often,
9. and a library's function only if nothing else rose.
10. Caches of the interpreter are no cause: what they do depends on what ran before the test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import NamedTuple

from pytest_schedprof.judge.costs import is_line
from pytest_schedprof.judge.figures import Figures
from pytest_schedprof.model.comparison import Change, Outcome
from pytest_schedprof.model.explanation import Cause, Cost, Part, Role
from pytest_schedprof.model.metric import (
    BYTECODES,
    CALLS,
    DIVIDED,
)
from pytest_schedprof.model.profile import Function, is_cache, is_under_test, is_work

LOCALS = ".<locals>."

TELLING = 0.02
"""Part of the largest cause from which on another function of the same rank is one too."""

ROUNDING = 1e-9


class Traits(NamedTuple):
    """What the rank of a function depends on."""

    is_tested: bool
    is_changed: bool
    is_new: bool
    amount: float
    """What it adds to the cost of a task."""
    by_price: float
    """What it adds because a call does more."""
    least: float
    """More than what rounding adds."""

    @property
    def is_more(self) -> bool:
        """Whether it costs more."""
        return self.amount > self.least

    @property
    def is_dearer(self) -> bool:
        """Whether a call of it costs more."""
        return self.by_price > self.least


RANKS: tuple[tuple[Role, Callable[[Traits], bool]], ...] = (
    (Role.CHANGED, lambda each: each.is_tested and each.is_changed and each.is_dearer),
    (Role.NEW, lambda each: each.is_tested and each.is_new and each.is_more),
    (Role.CHANGED, lambda each: each.is_tested and each.is_changed),
    (Role.CHANGED, lambda each: each.is_changed and each.is_dearer),
    (Role.DEARER, lambda each: each.is_tested and each.is_more and each.is_dearer),
    (Role.CALLED, lambda each: each.is_tested and each.is_more),
    (Role.CALLED, lambda each: each.is_more),
)
"""What functions are that may be the cause; none of a rank is if there is one of a rank before."""


def enclosing(function: Function) -> Function:
    """Return the function that a function is defined in, or itself."""
    return function.partition(LOCALS)[0]


def causes(accounts: Mapping[str, Iterable[Part]]) -> tuple[Cause, ...]:
    """Return the functions that explain a rise, the most important first.

    Args:
        accounts: the functions on both sides, by the metric of their costs: the scheduler and the
            client may run the same one.
    """
    suspects: dict[Function, dict[str, Part]] = defaultdict(dict)
    for metric, parts in accounts.items():
        for function, part in _with_inner(parts).items():
            suspects[function][metric] = part
    ranked: dict[int, list[tuple[float, Cause]]] = defaultdict(list)
    for parts_of_one in suspects.values():
        if (judged := _judged(parts_of_one)) is not None:
            rank, weight, cause = judged
            ranked[rank].append((weight, cause))
    if not ranked:
        return ()
    found = sorted(ranked[min(ranked)], key=lambda each: (-each[0], each[1].function))
    largest, first = found[0]
    if first.role is not Role.CHANGED:
        return (first,)
    least = min(TELLING * largest, largest)  # the costs of those that do no more may have fallen
    return tuple(cause for weight, cause in found if weight >= least)


def _judged(parts: Mapping[str, Part]) -> tuple[int, float, Cause] | None:
    """Return a function's rank and what it adds; None if it explains nothing."""
    metric, largest = max(parts.items(), key=lambda each: each[1].amount)
    traits = _traits(largest.function, parts.values())
    rank = next((at for at, (_, holds) in enumerate(RANKS) if holds(traits)), None)
    if rank is None or is_cache(largest.function):
        return None
    costs = largest.before.amount, largest.after.amount
    weight = traits.by_price if traits.is_dearer else traits.amount
    return rank, weight, Cause(largest.function, RANKS[rank][0], metric, *costs)


def _traits(function: Function, parts: Collection[Part]) -> Traits:
    return Traits(
        is_under_test(function),
        any(each.is_changed for each in parts),
        is_work(function) and all(each.is_new for each in parts),
        fsum(each.amount for each in parts),
        fsum(each.by_price for each in parts),
        ROUNDING * fsum(each.after.amount for each in parts),
    )


def _with_inner(parts: Iterable[Part]) -> dict[Function, Part]:
    """Return one part for each function with those that are defined in it."""
    groups: dict[Function, list[Part]] = defaultdict(list)
    for part in parts:
        if not is_line(part.function):
            groups[enclosing(part.function)].append(part)
    return {name: _joined(group) for name, group in groups.items()}


def _joined(parts: Sequence[Part]) -> Part:
    """Return the outermost function with the costs of all; calls and code are its own."""
    outer = min(parts, key=lambda each: (each.function.count(LOCALS), -each.after.amount))
    before, after = (
        replace(own, amount=fsum(each.amount for each in costs))
        for own, costs in (
            (outer.before, (each.before for each in parts)),
            (outer.after, (each.after for each in parts)),
        )
    )
    return replace(outer, before=before, after=after)


NOTHING = Cost()

_ORDER = list(Outcome)


def causes_of(before: Figures, after: Figures, changes: Sequence[Change]) -> tuple[Cause, ...]:
    """Return the functions that explain what regressed; none if nothing did, or none is known.

    One whose code is the same must have regressed itself, or else a figure of the whole stands for
    itself, such as messages.
    """
    regressed = {enclosing(each.subject) for each in changes if each.outcome is Outcome.REGRESSED}
    if not regressed:
        return ()
    both = [each for each in before.metrics if each in after.metrics]
    divided = [metric for metric in both if metric in DIVIDED]
    if BYTECODES not in divided and CALLS in both:
        divided.append(CALLS)
    found = causes({each: list(parts_of(each, before, after)) for each in divided})
    return tuple(each for each in found if each.role is Role.CHANGED or each.function in regressed)


def parts_of(metric: str, before: Figures, after: Figures) -> Iterator[Part]:
    """Yield what each function cost by itself on both sides, as far as that is known."""
    olds, news = before.accounts(metric), after.accounts(metric)
    for function in sorted({*olds, *news}):
        old, new = olds.get(function), news.get(function)
        if (old or before.names_all) and (new or after.names_all):
            yield Part(function, "", old or NOTHING, new or NOTHING)


def in_order(changes: Iterable[Change], causes: Sequence[Cause]) -> list[Change]:
    """Return changes, the most severe first: of the causes, of code under test, then of others.

    Functions stand before the whole, and larger changes before smaller ones.
    """
    places = {each.function: place for place, each in enumerate(causes)}

    def gravity(change: Change) -> tuple[int, int, bool, bool, float, str]:
        return (
            _ORDER.index(change.outcome),
            places.get(enclosing(change.subject), len(places)),
            not change.subject,
            not is_under_test(change.subject),
            -abs(change.difference),
            change.subject,
        )

    return sorted(changes, key=gravity)
