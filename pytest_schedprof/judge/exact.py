"""Compare exact figures, such as calls and bytecodes.

A figure first gets the outcome of its own difference. Then the rules of `RULES` look at it, in this
order, and each sees what those before it made of the others:

1. What moved within an owner, and then within a module, is a shift. This comes first, because it
   weighs the differences of a place against each other: a rise that another rule had taken out
   would be missing there. Owners come before modules, since an owner is what users know.
2. A cache of the interpreter does not regress. It may well make up for what moved.
3. What was not counted in some rounds is undecided if it seemed the same,
4. and else what was steady before and no longer is: the first says more.
5. Hash seeds that differ may explain whatever has risen or is undecided until here. The rules below
   have a better reason, so they replace this note.
6. More calls are a shift without more bytecodes, which the rules before have judged by now.
7. If tasks took other ways than before, no rise that is left is certain, whatever the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum, isclose, sqrt
from typing import TypeAlias

from pytest_schedprof.judge.causes import parts_of
from pytest_schedprof.judge.contrast import Contrast, Figure, Policy, unpaired
from pytest_schedprof.judge.costs import KEPT, is_line, line_of
from pytest_schedprof.judge.estimate import MANY
from pytest_schedprof.judge.figures import Measurement
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

NO_DEARER = "more calls, but no more bytecodes in the functions that make them"

CALLS_ALONE = "calls alone do not tell what new functions cost: count bytecodes too"


@dataclass(frozen=True)
class Case:
    """One metric on both sides."""

    metric: str
    before: Measurement
    after: Measurement
    policy: Policy

    @cached_property
    def lines(self) -> tuple[Lines, Lines]:
        """The figures of functions on both sides, by the same names."""
        sides = self.before, self.after
        olds, news = (side.exact(self.metric) for side in sides)
        return aligned(olds, news, (sides[0].folded(self.metric), sides[1].folded(self.metric)))

    @cached_property
    def wholes(self) -> tuple[Figure | None, Figure | None]:
        """The figures of the whole on both sides."""
        return self.before.whole(self.metric), self.after.whole(self.metric)

    @property
    def total(self) -> float:
        """The whole before."""
        return self.wholes[0].value if self.wholes[0] else 0.0

    @cached_property
    def floor(self) -> float:
        """Least change of a function that counts."""
        return max(self.before.floor, self.after.floor) * self.total

    @cached_property
    def least(self) -> float:
        """The same where functions scatter in virtual time.

        Only the client's caches make its functions differ there, by less than the scatter: if the
        code that the client ran differs, changes count from the least rise on.
        """
        scatter = METRICS[self.metric].scatter
        if self.metric == CLIENT_BYTECODES and self.before.is_reproduced:
            parts = parts_of(self.metric, self.before, self.after)
            if any(part.is_changed for part in parts):
                scatter = min(scatter, self.policy.exact_rise)
        return max(self.floor, scatter * self.total)

    @property
    def of_sums(self) -> Policy:
        """The policy for the whole and for owners: of a metric whose scatter is known, changes
        count that are clearly larger than that."""
        scatter = METRICS[self.metric].scatter
        return replace(self.policy, exact_rise=CLEAR * scatter) if scatter else self.policy

    def changes(self) -> Iterator[Change]:
        """Yield the change of every function and of the whole, by its own difference alone."""
        olds, news = self.lines
        for name in sorted({*olds, *news}):
            # Functions of the client outside of caches keep nothing for later tests.
            is_steady = self.metric == CLIENT_BYTECODES and module_of(name) in UNCACHED
            least = self.floor if is_steady else self.least
            old, new = olds.get(name, NOTHING), news.get(name, NOTHING)
            yield self._change(name, old, new, least, self.policy)
        old_whole, new_whole = self.wholes
        if old_whole and new_whole:
            yield self._change("", old_whole, new_whole, self.least, self.of_sums)

    def _change(
        self, subject: str, old: Figure, new: Figure, least: float, policy: Policy
    ) -> Change:
        contrast = unpaired(old, new)
        outcome, note = self._outcome(contrast, least, policy), ""
        low = contrast.difference - ERRORS * contrast.error
        if outcome is Outcome.UNDECIDED:
            note = BELOW if low > 0 else self._doubt
        owner = OBJECTS if self.metric in HELD else owner_of_counted(subject)
        return Change(
            self.metric,
            subject,
            owner if subject else "",
            outcome,
            contrast.before,
            contrast.after,
            low,
            contrast.difference + ERRORS * contrast.error,
            note,
        )

    def _outcome(self, contrast: Contrast, least: float, policy: Policy) -> Outcome:
        moved = abs(contrast.difference) * (1 + ROUNDING)
        if not moved or moved < max(policy.exact_rise * contrast.before, least):
            return Outcome.SAME
        is_rise = contrast.difference > 0
        certain = max(ERRORS * contrast.error, policy.exact_rise * self.total)
        if not contrast.error or moved >= certain:
            return Outcome.REGRESSED if is_rise else Outcome.IMPROVED
        is_chance = contrast.freedom < MANY and contrast.low <= 0
        return Outcome.SAME if is_chance or not is_rise else Outcome.UNDECIDED

    @cached_property
    def _doubt(self) -> str:
        """Why a count that varies is undecided, and what would decide it there."""
        before, after = self.before, self.after
        if before.is_virtual and after.is_virtual:
            return (
                IN_TURNS
                if before.test_hash_seed.isdigit() and after.test_hash_seed.isdigit()
                else NO_SEED
            )
        return SCATTERS if before.shows_scatter and after.shows_scatter else FEW_ROUNDS

    @cached_property
    def steady(self) -> Mapping[str, float]:
        """The figures before that were the same in all rounds; the whole has the empty name."""
        whole = self.wholes[0]
        # Where rounds are reproduced no figure has an error, though rounds may differ from each
        # other, and no decision in virtual time has one.
        has_no_errors = self.before.is_reproduced or self.metric in DECISIONS
        wavered = self.before.wavering(self.metric) if has_no_errors else {}
        return {
            name: figure.value
            for name, figure in {**self.lines[0], **({"": whole} if whole else {})}.items()
            if not figure.error and not wavered.get(name)
        }

    @cached_property
    def wavering(self) -> Mapping[str, float]:
        """How much figures vary between the rounds of the later side, if that says anything."""
        is_known = self.before.shows_scatter and self.metric not in TRAFFIC
        return self.after.wavering(self.metric) if is_known else {}

    def unsteady_from(self, before: float) -> float:
        """Return from which scatter on a figure is no longer steady."""
        least, total = self.policy.exact_rise * before, self.policy.exact_rise * self.total
        if not self.least:
            return least
        return max(least, min(total, max(WAVERING * before, WAVERING_OF_WHOLE * self.total)))


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


def has_one_seed(before: Measurement, after: Measurement) -> bool:
    """Whether both schedulers had the same hash seed, so that their sets had the same order.

    Only the test's own process has a seed that nobody chose.
    """
    if not (before.is_in_process or after.is_in_process):
        return True
    return before.hash_seed == after.hash_seed and before.hash_seed.isdigit()


@dataclass(frozen=True)
class Sides:
    """What is compared: both sides, and the case of each metric."""

    before: Measurement
    after: Measurement
    policy: Policy
    cases: Mapping[str, Case]


Rule: TypeAlias = Callable[[list[Change], Sides], Iterable[Change]]
"""Returns changes with the outcomes and notes that the rule gives them."""


def exact_changes(
    before: Measurement, after: Measurement, policy: Policy, metrics: Iterable[str]
) -> list[Change]:
    """Compare every figure of these exact metrics; unchanged figures are included."""
    cases = {metric: Case(metric, before, after, policy) for metric in metrics}
    sides = Sides(before, after, policy, cases)
    changes = [change for case in cases.values() for change in case.changes()]
    for rule in RULES:
        changes = list(rule(changes, sides))
    return changes


def module_of(function: Function) -> str:
    """Return a function's module."""
    return function.partition(":")[0]


def _moved(place: Callable[[Change], str]) -> Rule:
    """Return the rule that changes which cancel within a place are shifts.

    Figures that scatter may have fallen by chance, which makes up for no exact rise.
    """

    def rule(changes: list[Change], sides: Sides) -> Iterator[Change]:
        groups: dict[tuple[str, str], list[Change]] = defaultdict(list)
        for change in changes:
            groups[change.metric, place(change)].append(change)
        for (metric, _), group in groups.items():
            policy = sides.cases[metric].of_sums
            certain = _shift([change for change in group if change.low == change.high], policy)
            likely = _shift(group, policy)
            for change in group:
                outcomes, note = certain if change.low == change.high else likely
                yield _as(change, Outcome.SHIFTED, note) if change.outcome in outcomes else change

    return rule


def _shift(group: list[Change], policy: Policy) -> tuple[tuple[Outcome, ...], str]:
    """Return which outcomes of a place are shifts, and the note; none if falls do not cover rises.

    They do if all that changed, taken as one function, would be called the same: where code is
    divided among functions, the calls between them cost a little. Unless a function came or went,
    falls must be no larger than rises either: else these are two independent changes.
    """
    rise = sum(max(0.0, change.difference) for change in group)
    falls = [change for change in group if change.difference < 0]
    fall = -sum(change.difference for change in falls)
    is_recast = any(
        change.outcome in (Outcome.REGRESSED, Outcome.IMPROVED)
        and not (change.before and change.after)
        for change in group
    )
    is_slight = rise - fall < policy.exact_rise * sum(change.before for change in falls)
    is_covered = COVERED * rise <= fall
    is_even = COVERED * fall <= rise
    if not (rise and fall and is_slight and is_covered and (is_recast or is_even)):
        return (), ""
    note = f"moved within one part: {rise:,.1f} more and {fall:,.1f} less there"
    return (Outcome.REGRESSED, Outcome.IMPROVED)[: 1 + is_even], note


def _as(change: Change, outcome: Outcome, note: str) -> Change:
    return replace(change, outcome=outcome, note=note)


def _cached(changes: list[Change], sides: Sides) -> Iterator[Change]:
    """Let no cache regress: what needs its answers is judged, and imports empty it."""
    for change in changes:
        is_cached = change.outcome is Outcome.REGRESSED and is_cache(change.subject)
        yield _as(change, Outcome.SHIFTED, CACHED) if is_cached else change


def _missed(changes: list[Change], sides: Sides) -> Iterator[Change]:
    """Leave it open how a function changed that was not counted in some of the rounds."""
    for change in changes:
        olds, news = sides.cases[change.metric].lines
        old, new = olds.get(change.subject, NOTHING), news.get(change.subject, NOTHING)
        is_same = change.outcome is Outcome.SAME
        is_missed = is_same and (_misses_rounds(old, new) or _misses_rounds(new, old))
        yield _as(change, Outcome.UNDECIDED, MISSED) if is_missed else change


def _unsteady(changes: list[Change], sides: Sides) -> Iterator[Change]:
    """Leave it open how a figure changed that was steady and no longer is.

    Its mean may be the same by chance, or be so uncertain that no change can be seen.
    """
    for change in changes:
        case = sides.cases[change.metric]
        before, amount = (of.get(change.subject, 0.0) for of in (case.steady, case.wavering))
        if change.outcome is Outcome.SAME and before and amount >= case.unsteady_from(before):
            note = NO_LONGER_STEADY.format(amount=amount)
            change = _as(change, Outcome.UNDECIDED, note)
        yield change


def _seeded(changes: list[Change], sides: Sides) -> Iterator[Change]:
    """Say of a rise how to rule out that the order of a set caused it."""
    is_one_seed = has_one_seed(sides.before, sides.after)
    for change in changes:
        if is_one_seed or change.outcome not in (Outcome.REGRESSED, Outcome.UNDECIDED):
            yield change
        else:
            is_open = change.outcome is Outcome.UNDECIDED
            yield replace(change, note=f"{change.note}; {SEEDS}" if is_open else SEEDS)


def _weighed(changes: list[Change], sides: Sides) -> Iterator[Change]:
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


def _of_other_ways(changes: list[Change], sides: Sides) -> Iterator[Change]:
    """Leave every rise open if tasks went through the state machine in other ways than before.

    Where the test's own process runs all, that depends on the load of the machine.
    """
    took_others = (sides.before.is_in_process or sides.after.is_in_process) and any(
        abs(change.difference) > sides.policy.exact_rise * change.before
        for change in changes
        if change.metric == TRANSITIONS and not change.subject
    )
    for change in changes:
        is_open = took_others and change.outcome is Outcome.REGRESSED
        yield _as(change, Outcome.UNDECIDED, OTHER_WAYS) if is_open else change


RULES: tuple[Rule, ...] = (
    _moved(lambda change: change.owner),
    _moved(lambda change: module_of(change.subject)),
    _cached,
    _missed,
    _unsteady,
    _seeded,
    _weighed,
    _of_other_ways,
)
"""In the order that the docstring of this module gives reasons for."""
