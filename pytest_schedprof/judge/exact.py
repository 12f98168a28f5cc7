"""Compare exact figures, such as calls and bytecodes.

A figure first gets the outcome of its own difference. If it seems the same, it is undecided if it
was not counted in some rounds, and else if it was steady before and no longer is: the first says
more. Then these rules look at it, in this order, and see what those before them made of the others:

1. What moved within an owner, and then within a module, is a shift. This comes first, because it
   weighs the differences of a place against each other: a rise that another rule had taken out
   would be missing there. Owners come before modules, since an owner is what users know.
2. A cache of the interpreter does not regress. It may well make up for what moved.
3. Hash seeds that differ may explain whatever has risen or is undecided until here. The rules below
   have a better reason, so they replace this note.
4. More calls are a shift without more bytecodes, which the rules before have judged by now.
5. If tasks took other ways than before, no rise that is left is certain, whatever the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import fsum, isclose, sqrt

from msgspec.structs import replace

from pytest_schedprof.judge.causes import parts_of
from pytest_schedprof.judge.costs import KEPT, is_line, line_of
from pytest_schedprof.judge.estimate import MANY, ROUNDING, Contrast, Figure, unpaired
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.judge.owners import owner_of_counted
from pytest_schedprof.model.comparison import Change, Outcome
from pytest_schedprof.model.metric import (
    BYTECODES,
    CALLS,
    CLIENT_BYTECODES,
    DECISIONS,
    METRICS,
    TRAFFIC,
    TRANSITIONS,
)
from pytest_schedprof.model.profile import Function, is_cache, is_work, module_of

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
    if of_other is None and any(map(is_line, other)):
        side = _folded_alike(side, other)
    if folded is None:
        return side
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
        fsum(figure.value for figure in figures),
        fsum(figure.error for figure in figures),
        min(figure.freedom for figure in figures),
    )


NOTHING = Figure(0.0)

EXACT_RISE = 0.01
"""Least rise that counts, as a part of the figure before."""

ERRORS = 4
"""Number of standard errors by which a scattering count must change. It must also change by a
relevant part of the whole, since counts that depend on timing differ from session to session."""

CLEAR = 2.5
"""How many times its scatter the whole must change of a metric whose scatter is known."""

OTHER_GRAPHS = (
    "the test sent other graphs than before, as it does if it iterates over a set: with "
    "PYTHONHASHSEED=0 in both sessions whatever differs is due to the code"
)

IN_TURNS = (
    "one process built the graphs of both sides, so sets of keys may have other orders: compare "
    "two sessions, where each run in virtual time is the same"
)

FEW_ROUNDS = "it may depend on timing: run three rounds or more"

BELOW = (
    "it depends on timing, and rose by less than 1 % of the whole, as it does without any change; "
    "with --schedprof-cluster=virtual each run is the same"
)

SCATTERS = (
    "it depends on timing, and varies too much between the rounds to tell; "
    "with --schedprof-cluster=virtual each run is the same"
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

NO_DEARER = "more calls, but no more bytecodes in the functions that make them"

CALLS_ALONE = "calls alone do not tell what new functions cost: count bytecodes too"


def exact_changes(before: Measurement, after: Measurement, metrics: Iterable[str]) -> list[Change]:
    """Compare every figure of these exact metrics; unchanged figures are included."""
    alone = [change for metric in metrics for change in _alone(metric, before, after)]
    of_owners = [*_without_moves(alone, lambda change: change.owner)]
    of_modules = _without_moves(of_owners, lambda change: module_of(change.subject))
    changes = [_without_caches(change, before, after) for change in of_modules]
    is_in_process = (before.is_in_process or after.is_in_process) and not before.is_reproduced
    # Only the test's own process has a seed that nobody chose; sets have the same order with one.
    old_seed, new_seed = (side.result.environment.hash_seed for side in (before, after))
    has_one_seed = old_seed == new_seed and old_seed.isdigit()
    if is_in_process and not has_one_seed:
        changes = [_with_seeds(change) for change in changes]
    changes = list(_weighed(changes))
    return list(_of_other_ways(changes)) if is_in_process else changes


def of_other_graphs(change: Change) -> Change:
    """Leave a rise open if it may be due to the order of a set in the test."""
    is_open = change.outcome in (Outcome.REGRESSED, Outcome.UNDECIDED)
    return _as(change, Outcome.UNDECIDED, OTHER_GRAPHS) if is_open else change


def _alone(metric: str, before: Measurement, after: Measurement) -> Iterator[Change]:
    """Yield the change of every function and of the whole, by its own figures alone."""
    olds: Lines = before.exact(metric)
    news: Lines = after.exact(metric)
    if olds.keys() != news.keys():
        olds, news = aligned(olds, news, (before.folded(metric), after.folded(metric)))
    old_whole, new_whole = before.whole(metric), after.whole(metric)
    total = old_whole.value if old_whole else 0.0
    floor = max(before.floor, after.floor) * total
    least = max(floor, _scatter(metric, before, after) * total)
    rows = []
    for name in sorted({*olds, *news}):
        # Functions of the client outside of caches keep nothing for later tests.
        is_uncached = metric == CLIENT_BYTECODES and module_of(name) in UNCACHED
        figures = olds.get(name, NOTHING), news.get(name, NOTHING)
        rows.append((name, *figures, floor if is_uncached else least, EXACT_RISE))
    if old_whole and new_whole:
        rows.append(("", old_whole, new_whole, least, _rise_of_sums(metric)))
    steady = _steady(metric, before, [(subject, old) for subject, old, *_ in rows])
    is_known = before.shows_scatter and metric not in TRAFFIC
    wavering = after.wavering(metric) if is_known else {}
    for subject, old, new, least_rise, rise in rows:
        owner = owner_of_counted(subject) if subject else ""
        if old == new and not old.error and not wavering.get(subject):  # as most are
            yield Change(metric, subject, owner, Outcome.SAME, old.value, new.value, 0.0, 0.0)
            continue
        contrast = unpaired(old, new)
        low = contrast.difference - ERRORS * contrast.error
        outcome, note = _outcome(contrast, least_rise, rise, total), ""
        amount = wavering.get(subject, 0.0)
        is_steady = subject not in steady or amount < _unsteady_from(old.value, least, total)
        if outcome is Outcome.UNDECIDED:
            note = BELOW if low > 0 else _doubt(before, after)
        elif (
            outcome is Outcome.SAME
            and subject
            and (_misses_rounds(old, new) or _misses_rounds(new, old))
        ):
            outcome, note = Outcome.UNDECIDED, MISSED
        elif outcome is Outcome.SAME and not is_steady:
            outcome, note = Outcome.UNDECIDED, NO_LONGER_STEADY.format(amount=amount)
        yield Change(
            metric,
            subject,
            owner,
            outcome,
            contrast.before,
            contrast.after,
            low,
            contrast.difference + ERRORS * contrast.error,
            note,
        )


def _scatter(metric: str, before: Measurement, after: Measurement) -> float:
    """Return the part of the whole below which functions scatter in virtual time.

    Only the client's caches make its functions differ there, by less than the scatter: if the code
    that the client ran differs, changes count from the least rise on.
    """
    scatter = METRICS[metric].scatter
    if metric != CLIENT_BYTECODES or not before.is_reproduced:
        return scatter
    is_changed = any(part.is_changed for part in parts_of(metric, before, after))
    return min(scatter, EXACT_RISE) if is_changed else scatter


def _rise_of_sums(metric: str) -> float:
    """Return the least rise of the whole and of owners: of a metric whose scatter is known, changes
    count that are clearly larger than that."""
    return CLEAR * METRICS[metric].scatter or EXACT_RISE


def _outcome(contrast: Contrast, least: float, rise: float, total: float) -> Outcome:
    # A change of exactly 1 % counts.
    moved = abs(contrast.difference) * (1 + ROUNDING)
    if not moved or moved < max(rise * contrast.before, least):
        return Outcome.SAME
    is_rise = contrast.difference > 0
    if not contrast.error or moved >= max(ERRORS * contrast.error, rise * total):
        return Outcome.REGRESSED if is_rise else Outcome.IMPROVED
    is_chance = contrast.freedom < MANY and contrast.low <= 0
    return Outcome.SAME if is_chance or not is_rise else Outcome.UNDECIDED


def _doubt(before: Measurement, after: Measurement) -> str:
    """Return why a count that varies is undecided, and what would decide it."""
    if before.is_virtual and after.is_virtual:
        return IN_TURNS
    return SCATTERS if before.shows_scatter and after.shows_scatter else FEW_ROUNDS


def _steady(
    metric: str, before: Measurement, figures: Iterable[tuple[Function, Figure]]
) -> set[Function]:
    """Return the figures before that were the same in all rounds; the whole has the empty name."""
    # Where rounds are reproduced no figure has an error, though rounds may differ from each other,
    # and no decision in virtual time has one.
    has_no_errors = before.is_reproduced or metric in DECISIONS
    wavered = before.wavering(metric) if has_no_errors else {}
    return {
        name
        for name, figure in figures
        if figure.value and not figure.error and not wavered.get(name)
    }


def _unsteady_from(before: float, least: float, total: float) -> float:
    """Return from which scatter on a figure is no longer steady."""
    if not least:
        return EXACT_RISE * before
    waver = max(WAVERING * before, WAVERING_OF_WHOLE * total)
    return max(EXACT_RISE * before, min(EXACT_RISE * total, waver))


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


MOVES = (Outcome.REGRESSED, Outcome.IMPROVED)
"""Outcomes that cancel within a place."""


def _without_moves(changes: Sequence[Change], place: Callable[[Change], str]) -> Iterator[Change]:
    """Yield changes that cancel within a place as shifts.

    Figures that scatter may have fallen by chance, which makes up for no exact rise.
    """
    moved = {change.metric for change in changes if change.outcome in MOVES}
    groups: dict[tuple[str, str], list[Change]] = defaultdict(list)
    for change in changes:
        if change.metric in moved:
            groups[change.metric, place(change)].append(change)
        else:
            yield change
    for (metric, _), group in groups.items():
        if not any(change.outcome in MOVES for change in group):
            yield from group
            continue
        least = _rise_of_sums(metric)
        certain = _shift([change for change in group if change.low == change.high], least)
        likely = _shift(group, least)
        for change in group:
            outcomes, note = certain if change.low == change.high else likely
            yield _as(change, Outcome.SHIFTED, note) if change.outcome in outcomes else change


def _shift(group: Sequence[Change], least: float) -> tuple[tuple[Outcome, ...], str]:
    """Return which outcomes of a place are shifts, and the note; none if falls do not cover rises.

    They do if all that changed, taken as one function, would be called the same: where code is
    divided among functions, the calls between them cost a little. Unless a function came or went,
    falls must be no larger than rises either: else these are two independent changes.
    """
    rise = sum(max(0.0, change.difference) for change in group)
    falls = [change for change in group if change.difference < 0]
    fall = -sum(change.difference for change in falls)
    is_recast = any(
        change.outcome in MOVES and not (change.before and change.after) for change in group
    )
    is_slight = rise - fall < least * sum(change.before for change in falls)
    is_covered = COVERED * rise <= fall
    is_even = COVERED * fall <= rise
    if not (rise and fall and is_slight and is_covered and (is_recast or is_even)):
        return (), ""
    note = f"moved within one part: {rise:,.1f} more and {fall:,.1f} less there"
    return MOVES[: 1 + is_even], note


def _as(change: Change, outcome: Outcome, note: str) -> Change:
    return replace(change, outcome=outcome, note=note)


def _without_caches(change: Change, before: Measurement, after: Measurement) -> Change:
    """Let no cache regress whose code is the same: what needs its answers is judged, and imports
    empty it."""
    if change.outcome is not Outcome.REGRESSED or not is_cache(change.subject):
        return change
    parts = parts_of(change.metric, before, after)
    differs = any(part.is_changed for part in parts if part.function == change.subject)
    return change if differs else _as(change, Outcome.SHIFTED, CACHED)


def _with_seeds(change: Change) -> Change:
    """Say of a rise how to rule out that the order of a set caused it."""
    if change.outcome is Outcome.UNDECIDED:
        return replace(change, note=f"{change.note}; {SEEDS}")
    return replace(change, note=SEEDS) if change.outcome is Outcome.REGRESSED else change


def _weighed(changes: Sequence[Change]) -> Iterator[Change]:
    """Let calls regress only if the function or its owner costs more bytecodes too."""
    costly = [change for change in changes if change.metric == BYTECODES]
    dearer = [change for change in costly if change.outcome is Outcome.REGRESSED]
    subjects, owners = {change.subject for change in dearer}, {change.owner for change in dearer}
    for change in changes:
        if change.metric != CALLS or change.outcome is not Outcome.REGRESSED:
            yield change
        elif costly:
            is_dearer = change.subject in subjects or change.owner in owners
            yield change if is_dearer else _as(change, Outcome.SHIFTED, NO_DEARER)
        else:
            is_known = change.before and change.subject
            yield change if is_known else _as(change, Outcome.UNDECIDED, CALLS_ALONE)


def _of_other_ways(changes: Sequence[Change]) -> Iterator[Change]:
    """Leave every rise open if tasks went through the state machine in other ways than before.

    Where the test's own process runs all, that depends on the load of the machine.
    """
    took_others = any(
        abs(change.difference) > EXACT_RISE * change.before
        for change in changes
        if change.metric == TRANSITIONS and not change.subject
    )
    for change in changes:
        is_open = took_others and change.outcome is Outcome.REGRESSED
        yield _as(change, Outcome.UNDECIDED, OTHER_WAYS) if is_open else change
