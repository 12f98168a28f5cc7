"""Compare exact figures, such as calls and bytecodes; moves within an owner are recognised."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import fsum, isclose, sqrt
from typing import NamedTuple

from pytest_schedprof.judge.causes import parts_of
from pytest_schedprof.judge.contrast import Contrast, Figure, Policy, unpaired
from pytest_schedprof.judge.costs import KEPT, is_line, line_of
from pytest_schedprof.judge.estimate import MANY
from pytest_schedprof.judge.figures import Figures
from pytest_schedprof.judge.owners import OBJECTS, owner_of_counted
from pytest_schedprof.model.comparison import Change, Outcome
from pytest_schedprof.model.metric import (
    BYTECODES,
    CALLS,
    CLIENT_BYTECODES,
    DECISIONS,
    HELD,
    METRICS,
    TRAFFIC,
    TRANSITIONS,
)
from pytest_schedprof.model.profile import Function, is_cache, is_work

CLEARLY_SMALL = 2.0
"""How many times the least cost of a named function, so that a rise from any cost below that is
at least a doubling: the function is compared by its name then."""

Lines = Mapping[Function, Figure]


def aligned(
    before: Lines, after: Lines, folded: tuple[Lines | None, Lines | None] = (None, None)
) -> tuple[Lines, Lines]:
    """Return the figures of both sides by the same names.

    A function that only one side names is taken out of the other one's others, or is put among
    those of its own side if it is not known what the other one folded. A side that has no line of
    others named all its functions: those it lacks were not called.

    Args:
        before: functions and lines of one side.
        after: those of the other.
        folded: the functions in the lines of both sides; None if they are not known.
    """
    olds, news = folded
    return _fitted(before, after, olds, news), _fitted(after, before, news, olds)


def _fitted(side: Lines, other: Lines, folded: Lines | None, of_other: Lines | None) -> Lines:
    alike = _folded_alike(side, other) if of_other is None else side
    return alike if folded is None else _named_alike(alike, other, folded)


def _named_alike(side: Lines, other: Lines, folded: Lines) -> Lines:
    """Name what the other side names."""
    named = {name: folded[name] for name in other if name not in side and name in folded}
    left: dict[Function, list[float]] = {line_of(name): [] for name in named}
    for name, figure in folded.items():
        if name not in named and (line := line_of(name)) in left:
            left[line].append(figure.value)
    return {**side, **named, **{line: _part(side[line], fsum(left[line])) for line in left}}


def _part(line: Figure, value: float) -> Figure:
    """Return what is left of a line, as certain as it was."""
    return replace(line, value=value, error=line.error * value / line.value if line.value else 0.0)


def _folded_alike(side: Lines, other: Lines) -> Lines:
    """Fold what the other side may have folded, unless it surely cost less there."""
    if not any(map(is_line, other)):
        return side
    least = CLEARLY_SMALL * KEPT * fsum(other[name].value for name in other if is_work(name))
    lines: dict[Function, list[Figure]] = defaultdict(list)
    for function, figure in side.items():
        is_named = function in other or is_line(function) or figure.value >= least
        lines[function if is_named else line_of(function)].append(figure)
    return {name: _sum(figures) for name, figures in lines.items()}


def _sum(figures: list[Figure]) -> Figure:
    """Add up figures; their errors too, since what moves one of them may move all."""
    if len(figures) == 1:
        return figures[0]
    return Figure(
        fsum(each.value for each in figures),
        fsum(each.error for each in figures),
        min(each.freedom for each in figures),
    )


NOTHING = Figure(0.0)

ROUNDING = 1e-9
"""Relative tolerance, so that a change of exactly 1 % counts despite rounding errors."""

ERRORS = 4
"""Number of standard errors by which a scattering count must change. It must also change by a
relevant part of the whole, since counts that depend on timing differ from session to session."""

CLEAR = 2.5
"""How many times its scatter the whole must change of a metric whose scatter is known."""

NO_SEED = (
    "graphs contain sets of keys, in another order in each process: with PYTHONHASHSEED=0 in both "
    "sessions each run in virtual time is the same"
)

IN_TURNS = (
    "one process built the graphs of both sides, so sets of keys may have other orders: compare "
    "two sessions with PYTHONHASHSEED=0, where each run in virtual time is the same"
)

FEW_ROUNDS = "it may depend on timing: run three rounds or more"

BELOW = (
    "it depends on timing, and rose by less than 1 % of the whole, as between sessions of the same "
    "code: on a virtual cluster each run is the same"
)

SCATTERS = (
    "it depends on timing, and varies too much between the rounds to tell: on a virtual cluster "
    "each run is the same"
)

OTHER_WAYS = (
    "tasks took other ways through the state machine than before, as under another load: compare "
    "on a cluster of our own, with the fixture schedprof_scheduler"
)

SEEDS = (
    "the hash seeds of the two sessions differ: set PYTHONHASHSEED=0 in both to rule out that the "
    "order of a set moved it"
)

MISSED = (
    "it was counted in some rounds and not at all in others: if the test replaces or imports it, "
    "do so before the window"
)

NO_LONGER_STEADY = (
    "it was the same in every round before, and now differs between rounds by {amount:,.3g}: "
    "see what differs between the rounds of the test"
)

WAVERING, WAVERING_OF_WHOLE = 0.1, 0.002
"""Least scatter between rounds, as a part of the figure and of the whole, by which a steady figure
is no longer steady. Where time decides, figures that agree in the rounds of one session scatter in
those of the next by up to 16 % (0.13 % of the whole), in `workloads.all_to_all` of 300 tasks."""

ALIKE = 0.01
"""Relative tolerance for rounds that differ in nothing but that a function was not counted."""

UNCACHED = frozenset({"distributed.client"})
"""Modules of the client without caches. With 29 tests in another order none of their figures
differed; 42 differed of `dask.utils`, `dask.sizeof`, `dask._expr`, `dask.tokenize` and others."""

CACHED = "a cache of the interpreter was emptied, as by an import: what needs its answers is judged"

COVERED = 0.9
"""Part of the rises in one owner or module that its falls must cover to be called a move."""


def exact_changes(
    before: Figures, after: Figures, policy: Policy, metrics: Iterable[str]
) -> list[Change]:
    """Compare every figure of these exact metrics; unchanged figures are included."""
    changes: dict[str, list[Change]] = {}
    for metric in metrics:
        changes[metric] = _of_metric(metric, before, after, policy)
    if CALLS in changes:
        costly = changes.get(BYTECODES, [])
        settle = _by_cost(BYTECODES, costly) if costly else partial(_without_cost, BYTECODES)
        changes[CALLS] = [settle(change) if _is_up(change) else change for change in changes[CALLS]]
    every = [change for found in changes.values() for change in found]
    if (before.is_in_process or after.is_in_process) and _took_other_ways(every, policy):
        return [_open(change) if _is_up(change) else change for change in every]
    return every


def _took_other_ways(changes: list[Change], policy: Policy) -> bool:
    """Whether tasks went through the state machine in other ways on the two sides."""
    return any(
        abs(change.difference) > policy.exact_rise * change.before
        for change in changes
        if change.metric == TRANSITIONS and not change.subject
    )


def _open(change: Change) -> Change:
    return replace(change, outcome=Outcome.UNDECIDED, note=OTHER_WAYS)


def _is_up(change: Change) -> bool:
    return change.outcome is Outcome.REGRESSED


def _of_metric(metric: str, before: Figures, after: Figures, policy: Policy) -> list[Change]:
    folded = before.folded(metric), after.folded(metric)
    olds, news = aligned(before.exact(metric), after.exact(metric), folded)
    old, new = before.whole(metric), after.whole(metric)
    total = old.value if old else 0.0
    contrasts = {
        name: unpaired(olds.get(name, NOTHING), news.get(name, NOTHING))
        for name in sorted({*olds, *news})
    }
    floor = max(before.floor, after.floor) * total
    least = max(floor, _scatter_of(metric, before, after, policy) * total)
    doubt = _doubt(before, after)
    judged = partial(_change, metric, total=total, least=least, policy=policy, doubt=doubt)
    of_sums = _policy_of_sums(metric, policy)
    of_functions = [
        judged(name, each, least=floor if _has_no_scatter(metric, name) else least)
        for name, each in contrasts.items()
    ]
    found = _with_moves(of_functions, of_sums)
    found = [_unless_cached(each) for each in found]
    found = [
        _unless_missed(each, olds.get(each.subject, NOTHING), news.get(each.subject, NOTHING))
        for each in found
    ]
    if old and new:
        found.append(judged("", unpaired(old, new), policy=of_sums))
    # Where rounds are reproduced no figure has an error, though rounds may differ from each other,
    # and no decision in virtual time has one.
    has_no_errors = before.is_reproduced or metric in DECISIONS
    before_it = before.wavering(metric) if has_no_errors else {}
    steady = {
        name: figure.value
        for name, figure in {**olds, **({"": old} if old else {})}.items()
        if not figure.error and not before_it.get(name)
    }
    knows = before.shows_scatter and metric not in TRAFFIC
    wavering = after.wavering(metric) if knows else {}
    bar = partial(_scatter_told, total=total, policy=policy, is_timed=bool(least))
    found = [_unless_wavering(each, steady, wavering, bar) for each in found]
    if has_one_seed(before, after):
        return found
    return [_with_seeds(each) for each in found]


def _scatter_of(metric: str, before: Figures, after: Figures, policy: Policy) -> float:
    """Return how much functions scatter, as a part of the whole.

    In virtual time only the client's caches make its functions differ, by less than the scatter.
    From the least rise on they are told if the code differs that the client ran.
    """
    scatter = METRICS[metric].scatter
    if metric != CLIENT_BYTECODES or not before.is_reproduced:
        return scatter
    differs = any(part.is_changed for part in parts_of(metric, before, after))
    return min(scatter, policy.exact_rise) if differs else scatter


def _has_no_scatter(metric: str, function: str) -> bool:
    """Whether a function of the client keeps nothing for later tests of the session."""
    return metric == CLIENT_BYTECODES and function.partition(":")[0] in UNCACHED


def _policy_of_sums(metric: str, policy: Policy) -> Policy:
    """Return the policy for the whole and for owners: of a metric whose scatter is known, changes
    count that are clearly larger than that."""
    if not METRICS[metric].scatter:
        return policy
    return replace(policy, exact_rise=CLEAR * METRICS[metric].scatter)


def has_one_seed(before: Figures, after: Figures) -> bool:
    """Whether both schedulers had the same hash seed, so that their sets had the same order.

    Only the test's own process has a seed that nobody chose.
    """
    if not (before.is_in_process or after.is_in_process):
        return True
    return before.hash_seed == after.hash_seed and before.hash_seed.isdigit()


def _with_seeds(change: Change) -> Change:
    """Say of a rise how to rule out that the order of a set caused it."""
    if change.outcome is Outcome.REGRESSED:
        return replace(change, note=SEEDS)
    if change.outcome is Outcome.UNDECIDED:
        return replace(change, note=f"{change.note}; {SEEDS}")
    return change


def _change(
    metric: str,
    subject: str,
    contrast: Contrast,
    *,
    total: float,
    least: float,
    policy: Policy,
    doubt: str,
) -> Change:
    outcome = _outcome(contrast, total, least, policy)
    low = contrast.difference - ERRORS * contrast.error
    return Change(
        metric,
        subject,
        _owner(metric, subject),
        outcome,
        contrast.before,
        contrast.after,
        low,
        contrast.difference + ERRORS * contrast.error,
        (BELOW if low > 0 else doubt) if outcome is Outcome.UNDECIDED else "",
    )


def _doubt(before: Figures, after: Figures) -> str:
    """Return why a count that varies is undecided, and what would decide it there."""
    if before.is_virtual and after.is_virtual:
        return IN_TURNS if before.has_fixed_order and after.has_fixed_order else NO_SEED
    is_shown = before.shows_scatter and after.shows_scatter
    return SCATTERS if is_shown else FEW_ROUNDS


def _owner(metric: str, subject: str) -> str:
    """Return the owner of a function or type; none of the scheduler as a whole."""
    if not subject:
        return ""
    return OBJECTS if metric in HELD else owner_of_counted(subject)


def _outcome(contrast: Contrast, total: float, least: float, policy: Policy) -> Outcome:
    moved = abs(contrast.difference) * (1 + ROUNDING)
    if not moved or moved < max(policy.exact_rise * contrast.before, least):
        return Outcome.SAME
    is_rise = contrast.difference > 0
    if not contrast.error or moved >= max(ERRORS * contrast.error, policy.exact_rise * total):
        return Outcome.REGRESSED if is_rise else Outcome.IMPROVED
    is_chance = contrast.freedom < MANY and contrast.low <= 0
    return Outcome.SAME if is_chance or not is_rise else Outcome.UNDECIDED


def _unless_missed(change: Change, old: Figure, new: Figure) -> Change:
    """Leave it open how a function changed that was not counted in some of the rounds."""
    if change.outcome is Outcome.SAME and (_misses_rounds(old, new) or _misses_rounds(new, old)):
        return replace(change, outcome=Outcome.UNDECIDED, note=MISSED)
    return change


def _unless_wavering(
    change: Change,
    steady: Mapping[str, float],
    wavering: Mapping[str, float],
    bar: Callable[[float], float],
) -> Change:
    """Leave it open how a figure changed that was steady and no longer is.

    Its mean may be the same by chance, or be so uncertain that no change can be seen.
    """
    amount, before = wavering.get(change.subject, 0.0), steady.get(change.subject)
    if change.outcome is not Outcome.SAME or not before or amount < bar(before):
        return change
    note = NO_LONGER_STEADY.format(amount=amount)
    return replace(change, outcome=Outcome.UNDECIDED, note=note)


def _scatter_told(before: float, *, total: float, policy: Policy, is_timed: bool) -> float:
    """Return from which scatter on a figure is no longer steady."""
    least = policy.exact_rise * before
    if not is_timed:
        return least
    timed = min(policy.exact_rise * total, max(WAVERING * before, WAVERING_OF_WHOLE * total))
    return max(least, timed)


def _misses_rounds(steady: Figure, other: Figure) -> bool:
    """Whether the other figure is this one in some of its rounds, and zero in the rest of them."""
    rounds = other.freedom + 1
    if steady.error or not steady.value or not other.error or other.freedom == MANY:
        return False
    counted = round(rounds * other.value / steady.value)
    if not 0 < counted < rounds:
        return False
    value = steady.value * counted / rounds
    error = value * sqrt((rounds - counted) / (counted * (rounds - 1)))
    return isclose(other.value, value, rel_tol=ALIKE) and isclose(other.error, error, rel_tol=ALIKE)


def _with_moves(changes: list[Change], policy: Policy) -> list[Change]:
    """Turn changes that cancel within an owner, or within a module, into shifts."""
    for place in (lambda change: change.owner, _module):
        groups: dict[str, list[Change]] = {}
        for change in changes:
            groups.setdefault(place(change), []).append(change)
        changes = [each for group in groups.values() for each in _settled(group, policy)]
    return changes


def _module(change: Change) -> str:
    return change.subject.partition(":")[0]


def _settled(group: list[Change], policy: Policy) -> list[Change]:
    """Turn the changes of one owner or module into shifts if they cancel each other.

    Figures that scatter may have fallen by chance, which makes up for no exact rise.
    """
    certain = _balance([each for each in group if _is_exact(each)], policy)
    likely = _balance(group, policy)
    return [_unless_moved(each, certain if _is_exact(each) else likely) for each in group]


def _is_exact(change: Change) -> bool:
    return change.low == change.high


class Balance(NamedTuple):
    """What rose and what fell in one owner or module."""

    rise: float
    fall: float
    is_moved: bool
    """Whether the falls make up for the rises."""


def _balance(group: Sequence[Change], policy: Policy) -> Balance:
    """Add up rises and falls.

    The falls make up for the rises if all that changed, taken as one function, would be called the
    same: where code is divided among functions, the calls between them cost a little.
    """
    rise = sum(max(0.0, change.difference) for change in group)
    falls = [change for change in group if change.difference < 0]
    fall = -sum(change.difference for change in falls)
    is_recast = any(_has_come_or_gone(change) for change in group)
    is_slight = rise - fall < policy.exact_rise * sum(change.before for change in falls)
    return Balance(rise, fall, is_slight and _makes_up(rise, fall, is_recast))


def _unless_moved(change: Change, balance: Balance) -> Change:
    """Return a change as a shift if it was a move."""
    rise, fall, is_moved = balance
    is_even = COVERED * fall <= rise
    is_shift = _is_up(change) or (change.outcome is Outcome.IMPROVED and is_even)
    return _as_shift(change, rise, fall) if is_moved and is_shift else change


def _is_open(change: Change) -> bool:
    return change.outcome in (Outcome.REGRESSED, Outcome.IMPROVED)


def _has_come_or_gone(change: Change) -> bool:
    return _is_open(change) and not (change.before and change.after)


def _makes_up(rise: float, fall: float, is_recast: bool) -> bool:
    """Whether the falls cover the rises.

    Unless a function came or went (`is_recast`), they must be of the same size: otherwise these are
    two independent changes.
    """
    if not rise or not fall:
        return False
    return COVERED * rise <= fall and (is_recast or COVERED * fall <= rise)


def _unless_cached(change: Change) -> Change:
    """Let no cache of the interpreter regress: its callers are judged, and imports empty it."""
    if not (_is_up(change) and is_cache(change.subject)):
        return change
    return replace(change, outcome=Outcome.SHIFTED, note=CACHED)


def _as_shift(change: Change, rise: float, fall: float) -> Change:
    note = f"moved within one part: {rise:,.1f} more and {fall:,.1f} less there"
    return replace(change, outcome=Outcome.SHIFTED, note=note)


def _by_cost(weighed_by: str, costly: list[Change]) -> Callable[[Change], Change]:
    """Return a rule: more of a metric, as calls, is a regression only if the function or its owner
    costs more by another one, as bytecodes."""
    dearer = {change.subject for change in costly if _is_up(change)}
    owners = _risen_owners(costly)

    def settle(change: Change) -> Change:
        if change.subject in dearer or change.owner in owners:
            return change
        note = f"more {change.metric}, but no more {weighed_by} in the functions that make them"
        return replace(change, outcome=Outcome.SHIFTED, note=note)

    return settle


def _risen_owners(costly: list[Change]) -> set[str]:
    return {change.owner for change in costly if _is_up(change)}


def _without_cost(weighed_by: str, change: Change) -> Change:
    if change.before and change.subject:
        return change
    note = f"{change.metric} alone do not tell what new functions cost: count {weighed_by} too"
    return replace(change, outcome=Outcome.UNDECIDED, note=note)
