"""The functions that explain a rise; all other figures that rose follow from them.

1. A function is taken together with those that are defined in it: comprehensions, lambdas.
2. Code under test is dask, distributed and the user's own. All other code is a library's.
3. First come functions under test whose code differs and which do more per call than before,
4. then those that did not run before, in a module where code differs, if it does anywhere: helpers
   that are new, whose callers do no more by themselves (not what carries messages, which other code
   makes run),
5. then those whose code differs and which do no more: what they call may run more often,
6. then functions of libraries whose code differs and which do more per call.
7. If no code differs, it is the function under test that does most more per call,
8. or else the one that costs most more because it is called more often,
9. and a library's function only if nothing else rose.
10. Caches of the interpreter are no cause: what they do depends on what ran before the test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import NamedTuple

from msgspec.structs import replace

from pytest_schedprof.judge.costs import is_line
from pytest_schedprof.judge.estimate import ROUNDING
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.model.comparison import Change, Outcome
from pytest_schedprof.model.explanation import Cause, Cost, Part, Role
from pytest_schedprof.model.metric import BYTECODES, CALLS, DIVIDED
from pytest_schedprof.model.profile import Function, is_cache, is_under_test, is_work, module_of

LOCALS = ".<locals>."

TELLING = 0.02
"""Part of the largest cause from which on another function of the same rank is one too."""


class Suspect(NamedTuple):
    """A function that may be the cause, with what its rank depends on."""

    is_tested: bool
    is_changed: bool
    is_new: bool
    is_more: bool
    """Whether it costs more."""
    is_dearer: bool
    """Whether a call of it costs more."""


RANKS: tuple[tuple[Role, Callable[[Suspect], bool]], ...] = (
    (Role.CHANGED, lambda part: part.is_tested and part.is_changed and part.is_dearer),
    (Role.NEW, lambda part: part.is_tested and part.is_new and part.is_more),
    (Role.CHANGED, lambda part: part.is_tested and part.is_changed),
    (Role.CHANGED, lambda part: part.is_changed and part.is_dearer),
    (Role.DEARER, lambda part: part.is_tested and part.is_more and part.is_dearer),
    (Role.CALLED, lambda part: part.is_tested and part.is_more),
    (Role.CALLED, lambda part: part.is_more),
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
    parts_of_all: dict[Function, dict[str, Part]] = defaultdict(dict)
    for metric, parts in accounts.items():
        groups: dict[Function, list[Part]] = defaultdict(list)
        for part in parts:
            if not is_line(part.function):
                groups[enclosing(part.function)].append(part)
        for function, group in groups.items():
            parts_of_all[function][metric] = _joined(group)
    changed = {
        module_of(function)
        for function, by_metric in parts_of_all.items()
        if is_under_test(function) and any(part.is_changed for part in by_metric.values())
    }
    ranked: dict[int, list[tuple[float, Cause]]] = defaultdict(list)
    for function, by_metric in parts_of_all.items():
        _rank(by_metric, ranked, may_be_new=not changed or module_of(function) in changed)
    if not ranked:
        return ()
    best = sorted(ranked[min(ranked)], key=lambda pair: (-pair[0], pair[1].function))
    largest, first = best[0]
    if first.role is not Role.CHANGED:
        return (first,)
    least = min(TELLING * largest, largest)  # the costs of those that do no more may have fallen
    return tuple(cause for weight, cause in best if weight >= least)


def _rank(
    parts: Mapping[str, Part], ranked: dict[int, list[tuple[float, Cause]]], *, may_be_new: bool
) -> None:
    """Add a function to those of its rank, with what it adds to the cost of a task."""
    metric, largest = max(parts.items(), key=lambda item: item[1].amount)
    function = largest.function
    if is_cache(function):
        return
    amount = fsum(part.amount for part in parts.values())
    by_price = fsum(part.by_price for part in parts.values())
    least = ROUNDING * fsum(part.after.amount for part in parts.values())
    suspect = Suspect(
        is_tested=is_under_test(function),
        is_changed=any(part.is_changed for part in parts.values()),
        is_new=may_be_new and is_work(function) and all(part.is_new for part in parts.values()),
        is_more=amount > least,
        is_dearer=by_price > least,
    )
    for rank, (role, holds) in enumerate(RANKS):
        if holds(suspect):
            cause = Cause(function, role, metric, largest.before.amount, largest.after.amount)
            ranked[rank].append((by_price if suspect.is_dearer else amount, cause))
            return


def _joined(parts: Sequence[Part]) -> Part:
    """Return the outermost function with the costs of all; calls and code are its own."""
    outer = min(parts, key=lambda part: (part.function.count(LOCALS), -part.after.amount))
    before = replace(outer.before, amount=fsum(part.before.amount for part in parts))
    after = replace(outer.after, amount=fsum(part.after.amount for part in parts))
    return replace(outer, before=before, after=after)


NOTHING = Cost()

GRAVITY = list(Outcome)


def causes_of(
    before: Measurement, after: Measurement, changes: Sequence[Change]
) -> tuple[Cause, ...]:
    """Return the functions that explain what regressed; none if nothing did, or none is known.

    One whose code is the same must have regressed itself, or else a figure of the whole stands for
    itself, such as messages.
    """
    regressed = {
        enclosing(change.subject) for change in changes if change.outcome is Outcome.REGRESSED
    }
    if not regressed:
        return ()
    possible = causes(
        {metric: parts_of(metric, before, after) for metric in _of_both(before, after)}
    )
    return tuple(
        cause for cause in possible if cause.role is Role.CHANGED or cause.function in regressed
    )


def with_other_code(before: Measurement, after: Measurement) -> frozenset[Function]:
    """Return the functions whose code differs, also if it is that of one defined in them."""
    return frozenset(
        enclosing(part.function)
        for metric in _of_both(before, after)
        for part in parts_of(metric, before, after)
        if part.is_changed
    )


def _of_both(before: Measurement, after: Measurement) -> list[str]:
    """Return the metrics of both sides that are divided among functions."""
    metrics = [metric for metric in before.metrics if metric in after.metrics]
    divided = [metric for metric in metrics if metric in DIVIDED]
    if BYTECODES not in divided and CALLS in metrics:
        divided.append(CALLS)
    return divided


def parts_of(metric: str, before: Measurement, after: Measurement) -> Iterator[Part]:
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
    places = {cause.function: place for place, cause in enumerate(causes)}

    def gravity(change: Change) -> tuple[int, int, bool, bool, float, str]:
        return (
            GRAVITY.index(change.outcome),
            places.get(enclosing(change.subject), len(places)),
            not change.subject,
            not is_under_test(change.subject),
            -abs(change.difference),
            change.subject,
        )

    return sorted(changes, key=gravity)
