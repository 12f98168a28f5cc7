"""Recognise time that moved within an owner or module: a function renamed, or a part extracted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_schedprof.comparison.figures import Figures
from pytest_schedprof.model.comparison import Change, Outcome

COVERED = 0.75
"""Part of a rise that must have fallen elsewhere in the same owner or module; samples are not
precise enough for more."""

GONE = 0.1
"""A function has gone if it keeps less than this part of its share."""


def with_moved_costs(changes: list[Change], before: Figures, after: Figures) -> list[Change]:
    """Turn changes of functions that came or went into shifts if their time only moved."""
    pairs = dict(_pairs(changes))
    pairs |= {old: new for new, old in pairs.items()}
    return [_settled(change, pairs, before, after) for change in changes]


def _pairs(changes: list[Change]) -> Iterator[tuple[str, str]]:
    """Pair each function that came with one of a similar share that went from the same owner or
    module."""
    free = [change for change in changes if _has_gone(change.before, change.after)]
    for change in sorted(changes, key=lambda each: -each.difference):
        if not _has_gone(change.after, change.before):
            continue
        alike = [
            gone
            for gone in free
            if _is_one_place(gone, change)
            and min(gone.before, change.after) >= COVERED * max(gone.before, change.after)
        ]
        if alike:
            nearest = min(alike, key=lambda gone: abs(gone.before - change.after))
            free.remove(nearest)
            yield change.subject, nearest.subject


def _has_gone(before: float, after: float) -> bool:
    return before > 0 and after <= GONE * before


def _is_one_place(one: Change, other: Change) -> bool:
    if one.subject.startswith("@") or other.subject.startswith("@"):
        return False
    return one.owner == other.owner or _module(one.subject) == _module(other.subject)


def _module(subject: str) -> str:
    return subject.partition(":")[0]


def _settled(change: Change, pairs: dict[str, str], before: Figures, after: Figures) -> Change:
    if change.outcome not in (Outcome.REGRESSED, Outcome.IMPROVED):
        return change
    if partner := pairs.get(change.subject):
        way = "from" if change.difference > 0 else "to"
        return replace(change, outcome=Outcome.SHIFTED, note=f"moved {way} {partner}")
    came = _has_gone(change.after, change.before)
    if change.outcome is Outcome.REGRESSED and came and _is_taken_out(change, before, after):
        note = f"extracted from other functions of {change.owner}, which did not grow as a whole"
        return replace(change, outcome=Outcome.SHIFTED, note=note)
    return change


def _is_taken_out(change: Change, before: Figures, after: Figures) -> bool:
    """Whether its self share was extracted from other functions of its owner."""
    own = _own(change.subject, after) - _own(change.subject, before)
    owner = f"@{change.owner}"
    if owner not in before.shares or owner not in after.shares:
        return False
    gained = after.shares[owner].value - before.shares[owner].value
    rise = change.difference
    return own >= COVERED * rise and gained <= (1 - COVERED) * rise


def _own(function: str, side: Figures) -> float:
    found = side.self_shares.get(function)
    return found.value if found else 0.0
