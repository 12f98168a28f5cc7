"""The functions that explain what regressed in a comparison, and the changes in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_schedprof.analysis.causes import causes, enclosing
from pytest_schedprof.comparison.figures import Figures
from pytest_schedprof.model.comparison import Change, Outcome
from pytest_schedprof.model.explanation import Cause, Cost, Part, Role
from pytest_schedprof.model.metric import BYTECODES, CALLS, METRICS
from pytest_schedprof.model.modules import is_under_test

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
    divided = [each for each in both if METRICS[each].is_divided]
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
