"""Find the first decision in which two runs of a test in virtual time differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from pytest_schedprof.formats.counted import KINDS, NOBODY, RULES, Decided, Step
from pytest_schedprof.model.comparison import (
    Choice,
    Comparison,
    Difference,
    FirstDifference,
    Report,
    SeenWorker,
)

Reader: TypeAlias = Callable[[], Sequence[Decided]]
ReaderOfTest: TypeAlias = Callable[[str], Sequence[Decided]]


def part_by_hash(before: Sequence[str], after: Sequence[str]) -> FirstDifference | None:
    """Tell from the hashes of the rounds whether both sides are the same; None without hashes."""
    pairs = list(zip(before, after, strict=False))
    if not pairs:
        return None
    differing = [number for number, (one, other) in enumerate(pairs) if one != other]
    difference = Difference.UNKNOWN if differing else Difference.NOTHING
    number = differing[0] if differing else 0
    return FirstDifference(difference, pairs[number], number + 1, len(pairs))


def with_first_difference(comparison: Comparison, before: Reader, after: Reader) -> Comparison:
    """Return the comparison with the first decision that differs.

    Args:
        comparison: which knows by the hashes whether there is such a decision.
        before: returns the decisions of each round; nothing if they are not at hand.
        after: the same of the later side.
    """
    known = comparison.parting
    if known is None or known.what is not Difference.UNKNOWN:
        return comparison
    number = known.round - 1
    rounds = before()[number : number + 1], after()[number : number + 1]
    hashes = [decided.hash for side in rounds for decided in side]
    if hashes != [*known.hashes]:  # not there, or files of other runs
        return comparison
    parting = part(rounds[0][0], rounds[1][0])
    return replace(comparison, parting=replace(parting, round=known.round, rounds=known.rounds))


def with_partings(report: Report, before: ReaderOfTest, after: ReaderOfTest) -> Report:
    """Return the report with the first decision that differs in each comparison of decisions.

    Args:
        report: of the comparison of two runs.
        before: returns the decisions of each round of the test of that ID in the earlier run.
        after: the same of the later run.
    """
    olds = {new: old for old, new in report.renamed}
    comparisons = (
        with_first_difference(
            comparison,
            partial(before, olds.get(comparison.test_id, comparison.test_id)),
            partial(after, comparison.test_id),
        )
        for comparison in report.comparisons
    )
    return replace(report, comparisons=tuple(comparisons))


def part(before: Decided, after: Decided) -> FirstDifference:
    """Compare one round of two sides."""
    hashes = before.hash, after.hash
    if before.hash == after.hash:
        return FirstDifference(Difference.NOTHING, hashes)
    ours, theirs = before.steps(), after.steps()
    index = _first_difference(ours, theirs)
    one = ours[index] if index < len(ours) else None
    other = theirs[index] if index < len(theirs) else None
    keys, their_keys = {step.key for step in ours}, {step.key for step in theirs}
    ours_only, theirs_only = (_first_alone(ours, their_keys), _first_alone(theirs, keys))
    if ours_only is not None and theirs_only is not None:
        difference, places = Difference.GRAPH, (ours_only, theirs_only)
    else:
        difference, places = _what(one, other), (index, index)
    later = _next_about(one, theirs, index) if difference is Difference.TASK else None
    moved, tasks = _moved(before, after)
    return FirstDifference(
        difference,
        hashes,
        alike=index,
        before=choice_at(before, places[0]),
        after=choice_at(after, places[1]),
        later=None if later is None else choice_at(after, later),
        tasks=tasks,
        moved=moved,
        only_before=len(keys - their_keys),
        only_after=len(their_keys - keys),
        figures={
            name: (value, after.figures[name])
            for name, value in before.figures.items()
            if name in after.figures and after.figures[name] != value
        },
    )


def _first_difference(ours: Sequence[Step], theirs: Sequence[Step]) -> int:
    """Return the number of steps that are the same from the first one on."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    shorter = min(len(ours), len(theirs))
    return next((number for number, (one, other) in pairs if one != other), shorter)


def _first_alone(steps: Sequence[Step], known: set[str]) -> int | None:
    """Return the place of the first decision about a task that the other side does not know.

    Where both sides have one, the test sent other tasks. Where one side has, the other one may not
    have come to decide about it.
    """
    return next((place for place, step in enumerate(steps) if step.key not in known), None)


def _what(one: Step | None, other: Step | None) -> Difference:
    if one is None and other is None:
        return Difference.MESSAGES
    if one is None or other is None:
        return Difference.END
    if (one.kind, one.key) != (other.kind, other.key):
        return Difference.TASK
    is_same = (one.worker, one.thief) == (other.worker, other.thief)
    return Difference.TIME if is_same else Difference.WORKER


def _next_about(step: Step | None, theirs: Sequence[Step], index: int) -> int | None:
    """Return the place of the next decision of the same kind about the same task."""
    about = step and (step.kind, step.key)
    places = range(index, len(theirs))
    return next((i for i in places if (theirs[i].kind, theirs[i].key) == about), None)


def choice_at(side: Decided, index: int) -> Choice | None:
    """Return a decision with what was compared for it; None beyond the last one."""
    columns = side.choices
    if index >= len(columns.at):
        return None
    chosen = columns.worker, columns.occupancy, columns.processing, columns.fetch
    other = columns.other, columns.other_occupancy, columns.other_processing, columns.other_fetch
    worker, best = (
        _seen(side, *(column[index] for column in columns)) for columns in (chosen, other)
    )
    assert worker is not None
    kind, key = KINDS[columns.kind[index]], side.keys[columns.key[index]]
    return Choice(
        columns.at[index] / 1e6,
        kind,
        key,
        worker,
        RULES[columns.rule[index]],
        columns.others[index],
        best,
    )


def _seen(
    side: Decided, worker: int, occupancy: int, processing: int, fetch: int
) -> SeenWorker | None:
    if worker == NOBODY:
        return None
    return SeenWorker(side.workers[worker], occupancy / 1e6, processing, fetch)


def _moved(before: Decided, after: Decided) -> tuple[int, int]:
    """Return how many tasks finished on another worker, and how many finished on both sides."""
    places, theirs = before.places(), after.places()
    keys = places.keys() & theirs.keys()
    return sum(places[key] != theirs[key] for key in keys), len(keys)
