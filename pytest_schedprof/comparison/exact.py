"""Calls and bytecodes compared: facts where they are steady, and of one owner taken together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_schedprof.analysis.student import MANY
from pytest_schedprof.comparison.contrast import Contrast, Figure, unpaired
from pytest_schedprof.comparison.figures import Figures, owner_of_subject
from pytest_schedprof.comparison.policy import Policy
from pytest_schedprof.model.comparison import Change, Outcome
from pytest_schedprof.model.metric import METRICS

NOTHING = Figure(0.0)

FLOOR = 1e-4
"""Of the whole: what moves by less is rare, and whether it happens at all is often chance."""

ROUNDING = 1e-9
"""What is 1 % more is so whatever the computer makes of it."""

ERRORS = 4
"""A count that scatters must have moved by so many standard errors, and by a part of the whole
that counts: what depends on time may be one thing in one session, and another in the next."""

UNSTEADY = "it may depend on time: three rounds or more, on a simulated cluster, show what does"

COVERED = 0.9
"""Of the rises in one place, what falls there must make up for it to be called a move."""


def exact_changes(before: Figures, after: Figures, policy: Policy) -> list[Change]:
    """Every exact figure that both sides measured, also what stayed the same."""
    changes: dict[str, list[Change]] = {}
    for metric in [name for name in before.metrics if name in after.metrics]:
        changes[metric] = _of_metric(metric, before, after, policy)
    costly = changes.get("bytecodes", [])
    for metric, found in changes.items():
        if metric == "bytecodes" or not METRICS[metric].of_functions:
            continue
        settle = _by_bytecodes(costly) if costly else _without_bytecodes
        changes[metric] = [settle(change) if _is_up(change) else change for change in found]
    return [change for found in changes.values() for change in found]


def _is_up(change: Change) -> bool:
    return change.outcome is Outcome.REGRESSED


def _of_metric(metric: str, before: Figures, after: Figures, policy: Policy) -> list[Change]:
    olds, news = before.exact(metric), after.exact(metric)
    old, new = before.whole(metric), after.whole(metric)
    total = old.value if old else 0.0
    contrasts = {
        name: unpaired(olds.get(name, NOTHING), news.get(name, NOTHING))
        for name in sorted({*olds, *news})
    }
    found = [_change(metric, name, each, total, policy) for name, each in contrasts.items()]
    found = _with_moves(found, policy)
    if old and new:
        found.append(_change(metric, "", unpaired(old, new), total, policy))
    return found


def _change(metric: str, subject: str, contrast: Contrast, total: float, policy: Policy) -> Change:
    outcome = _outcome(contrast, total, policy)
    return Change(
        metric,
        subject,
        owner_of_subject(subject),
        outcome,
        contrast.before,
        contrast.after,
        contrast.low,
        contrast.high,
        UNSTEADY if outcome is Outcome.UNDECIDED else "",
    )


def _outcome(contrast: Contrast, total: float, policy: Policy) -> Outcome:
    moved = abs(contrast.difference) * (1 + ROUNDING)
    if not moved or moved < max(policy.exact_rise * contrast.before, FLOOR * total):
        return Outcome.SAME
    is_rise = contrast.difference > 0
    if not contrast.error or moved >= max(ERRORS * contrast.error, policy.exact_rise * total):
        return Outcome.REGRESSED if is_rise else Outcome.IMPROVED
    is_chance = contrast.freedom < MANY and contrast.low <= 0
    return Outcome.SAME if is_chance or not is_rise else Outcome.UNDECIDED


def _with_moves(changes: list[Change], policy: Policy) -> list[Change]:
    """What moved within an owner, or else within a module, is a shift and no regression."""
    for place in (lambda change: change.owner, _module):
        groups: dict[str, list[Change]] = {}
        for change in changes:
            groups.setdefault(place(change), []).append(change)
        changes = [each for group in groups.values() for each in _settled(group, policy)]
    return changes


def _module(change: Change) -> str:
    return change.subject.partition(":")[0]


def _settled(group: list[Change], policy: Policy) -> list[Change]:
    """One place's changes, once it is known whether they make up for each other."""
    rise = sum(max(0.0, change.difference) for change in group)
    fall = -sum(min(0.0, change.difference) for change in group)
    total = sum(change.before for change in group)
    is_moved = _makes_up(rise, fall, any(_has_come_or_gone(change) for change in group))
    is_slight = rise - fall < policy.exact_rise * total
    is_even = COVERED * fall <= rise

    def is_shift(change: Change) -> bool:
        if _is_up(change):
            return is_moved or (is_slight and not change.before)
        return change.outcome is Outcome.IMPROVED and is_moved and is_even

    return [_as_shift(each, rise, fall) if is_shift(each) else each for each in group]


def _is_open(change: Change) -> bool:
    return change.outcome in (Outcome.REGRESSED, Outcome.IMPROVED)


def _has_come_or_gone(change: Change) -> bool:
    return _is_open(change) and not (change.before and change.after)


def _makes_up(rise: float, fall: float, is_recast: bool) -> bool:
    """Falls for rises; where no function came or went, just as much: it may be two changes."""
    if not rise or not fall:
        return False
    return COVERED * rise <= fall and (is_recast or COVERED * fall <= rise)


def _as_shift(change: Change, rise: float, fall: float) -> Change:
    note = f"moved within one part: {rise:,.1f} more and {fall:,.1f} less per task there"
    return replace(change, outcome=Outcome.SHIFTED, note=note)


def _by_bytecodes(costly: list[Change]) -> Callable[[Change], Change]:
    """More calls are a regression only where more was done in them, or around them."""
    dearer = {change.subject for change in costly if _is_up(change)}
    owners = _risen_owners(costly)

    def settle(change: Change) -> Change:
        if change.subject in dearer or change.owner in owners:
            return change
        note = "more calls, but no more bytecodes in the functions that make them"
        return replace(change, outcome=Outcome.SHIFTED, note=note)

    return settle


def _risen_owners(costly: list[Change]) -> set[str]:
    return {change.owner for change in costly if _is_up(change)}


def _without_bytecodes(change: Change) -> Change:
    if change.before and change.subject:
        return change
    note = "calls alone do not tell what new functions cost: count bytecodes too"
    return replace(change, outcome=Outcome.UNDECIDED, note=note)
