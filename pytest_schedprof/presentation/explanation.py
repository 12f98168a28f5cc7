"""Explanations in words: what changed, in which functions, by which lines."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_schedprof.model.explanation import Explanation, Part, Place
from pytest_schedprof.model.metric import METRICS, readable
from pytest_schedprof.presentation.amounts import change_of

MOST_EXPLAINED = 10
"""Figures of a run that its summary and its page explain; the pages of tests explain all."""

TOLD = 6
"""Functions that are told in words."""

MATTERS = 0.02
"""Part of the largest part from which on another one is told."""

AS_BEFORE = 0.001
"""Relative difference up to which a function is called as before."""

MOST_CALLERS = 3


def headline(found: Explanation) -> str:
    """Return what changed: `bytecodes: 5,512 before, 5,891 now per task (+379, +6.9%)`."""
    return (
        f"{found.metric}: {_amount(found, found.before)} before, {_amount(found, found.after)} now "
        f"per task ({_more(found, found.amount)}, "
        f"{change_of(found.metric, found.before, found.after)})"
    )


def told(found: Explanation, most: int = TOLD) -> list[Part]:
    """Return the parts that are worth telling."""
    largest = max((abs(part.amount) for part in found.parts), default=0.0)
    return [
        part
        for part in found.parts[:most]
        if part.role is not None
        or (abs(part.amount) >= MATTERS * largest and abs(part.amount) > part.error)
    ]


def others(found: Explanation, shown: int) -> str:
    """Return what the parts that are not told add; empty if there are none."""
    left = found.parts[shown:]
    rest = sum(part.amount for part in left) + found.rest
    if not left and abs(found.rest) <= 1e-6 * max(abs(found.before), abs(found.after)):
        return ""
    more = f"{len(left)} other functions" if left else "functions without a line of their own"
    return f"{_more(found, rest)}: {more}"


def sentence(found: Explanation, part: Part) -> str:
    """Return what one function adds, and why."""
    amount = f"{_more(found, part.amount)}"
    if part.error:
        amount += f" (within {_amount(found, part.error)})"
    return f"{amount}: `{part.function}` {', '.join(_reasons(found, part))}"


def _reasons(found: Explanation, part: Part) -> Iterator[str]:
    if part.moved_from:
        yield f"was `{part.moved_from}` before"
    if METRICS[found.metric].is_sampled and (part.is_new or part.is_gone):
        # A baseline leaves out what is in one sample of a thousand.
        yield "was in next to no sample before" if part.is_new else "is in next to no sample now"
    elif part.is_new:
        yield f"is new{_called(part.after.calls)}"
    elif part.is_gone:
        yield f"is gone{_called(part.before.calls, 'was called')}"
    else:
        yield from _calls_and_price(found, part)
    yield from _callers(part)
    yield from places(part)


def _called(calls: float | None, words: str = "called") -> str:
    return f", {words} {_times(calls)} per task" if calls else ""


def _calls_and_price(found: Explanation, part: Part) -> Iterator[str]:
    old, new = part.before, part.after
    if old.calls is None or new.calls is None:
        yield f"costs {_amount(found, new.amount)} instead of {_amount(found, old.amount)}"
        return
    if abs(new.calls - old.calls) <= AS_BEFORE * old.calls:
        yield f"is called as before ({_times(new.calls)} per task)"
    else:
        yield f"is called {_times(new.calls)} instead of {_times(old.calls)} times per task"
    price = (new.per_call or 0.0) - (old.per_call or 0.0)
    is_dearer = abs(price) > AS_BEFORE * (old.per_call or 0.0)
    if is_dearer and abs(part.by_price) >= MATTERS * abs(part.amount):
        way = "more" if price > 0 else "less"
        now = _amount(found, new.per_call or 0.0)
        yield f"{_amount_and_noun(found, abs(price))} {way} per call (now {now})"


def _callers(part: Part) -> Iterator[str]:
    """Say who calls the function more or less often than before."""
    named = [
        f"`{_short(each.function, part.function)}` ({each.after - each.before:+.3g})"
        for each in part.callers[:MOST_CALLERS]
    ]
    if named:
        yield f"by {', '.join(named)}"


def _short(function: str, beside: str) -> str:
    """Return a name without its module, if that is the one of another function."""
    module, _, name = function.partition(":")
    return name if module == beside.partition(":")[0] else function


def places(part: Part) -> Iterator[str]:
    """Say by which lines a call costs more."""
    source = part.source
    if source is None or part.is_new or part.is_gone:
        return
    file = source.file.rpartition("/")[2]
    if source.places and part.by_price > 0:
        yield f"by {_lines(source.places)} of {file}"
    else:
        yield "its source is the same" if source.is_same else f"its source in {file} changed"


def _lines(found: tuple[Place, ...]) -> str:
    return " and ".join(map(_place, found))


def _place(place: Place) -> str:
    span = (
        f"line {place.first}"
        if place.first == place.last
        else f"lines {place.first} to {place.last}"
    )
    more = "" if place.more is None else f"{place.more:+.3g}"
    told = ", ".join(filter(None, [more, "new in this version" if place.is_new else ""]))
    return f"{span} ({told})" if told else span


def _times(calls: float | None) -> str:
    return f"{calls or 0.0:,.2f}".rstrip("0").rstrip(".")


def _amount(found: Explanation, value: float) -> str:
    return readable(value, METRICS[found.metric])


def _amount_and_noun(found: Explanation, value: float) -> str:
    amount = _amount(found, value)
    noun = METRICS[found.metric].noun.partition(" of ")[0]
    return f"{amount} {noun.removesuffix('s') if amount == '1' else noun}".rstrip()


def _more(found: Explanation, value: float) -> str:
    return f"{'-' if value < 0 else '+'}{_amount(found, abs(value))}"
