"""Pictures of decisions in virtual time: task streams, and what workers held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_schedprof.model.decisions import Decided
from pytest_schedprof.model.parting import Choice, Difference, Parting
from pytest_schedprof.pages.streams import WIDTH, Curve, Scale, StreamPicture, kind_of

MOST_WORKERS = 40
"""Rows of a stream. Workers that the first difference is about are among them."""

COLOURS = 8
MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class DecisionsPicture:
    """One round of a test, of one side or of two."""

    streams: tuple[StreamPicture, ...]
    curves: tuple[Curve, ...]
    ticks: tuple[tuple[float, str], ...]
    legend: tuple[tuple[str, int, int], ...]
    """Kinds of tasks with their colours and numbers."""
    hidden: int
    """Workers that have no row."""
    note: str


def picture(sides: Sequence[tuple[str, Decided]], parting: Parting | None) -> DecisionsPicture:
    """Return the picture of one or two sides, the earlier one first, on one scale.

    Args:
        sides: the name and the decisions of each.
        parting: whose first difference is marked; None if there is nothing to mark.
    """
    decided = [each for _, each in sides]
    span = max((_end(each) for each in decided), default=0) or 1
    names = list(dict.fromkeys(_sorted(name for each in decided for name in each.workers)))
    shown = _shown(names, parting)
    kinds = _kinds(decided)
    choices = _choices(parting, len(sides))
    scale = Scale(span, shown, {kind: number % COLOURS for number, kind in enumerate(kinds)})
    round = f"round {parting.round} of {parting.rounds}" if parting and parting.rounds > 1 else ""
    return DecisionsPicture(
        tuple(
            scale.stream(name, each, choice)
            for (name, each), choice in zip(sides, choices, strict=True)
        ),
        (
            scale.curve(
                "all workers together", [each.held.all for each in decided], decided, choices
            ),
            scale.curve(
                "the worker that held most", [each.held.worst for each in decided], decided, choices
            ),
        ),
        tuple(_ticks(span)),
        tuple((kind, scale.colours[kind], count) for kind, count in kinds.items()),
        len(names) - len(shown),
        round,
    )


def _kinds(decided: Iterable[Decided]) -> dict[str, int]:
    """Return the kinds of tasks and how many there are of each on the later side."""
    counts: dict[str, int] = {}
    for each in decided:
        counts = dict.fromkeys(counts, 0)
        for key in each.tasks.key:
            kind = kind_of(each.keys[key])
            counts[kind] = counts.get(kind, 0) + 1
    return counts


def _end(of: Decided) -> int:
    ends = (start + took for start, took in zip(of.tasks.start, of.tasks.took, strict=True))
    return max(ends, default=0)


def _sorted(names: Iterable[str]) -> list[str]:
    """Sort workers by number."""
    return sorted(names, key=lambda name: (len(name), name))


def _shown(names: list[str], parting: Parting | None) -> list[str]:
    """Return the workers that get a row."""
    wanted = [
        worker.name
        for choice in (parting.before, parting.after, parting.later) if choice is not None
        for worker in (choice.worker, choice.best_other) if worker is not None
    ] if parting else []  # fmt: skip
    first = dict.fromkeys([*(each for each in wanted if each in names), *names])
    return _sorted(list(first)[:MOST_WORKERS])


def _choices(parting: Parting | None, count: int) -> list[Choice | None]:
    """Return the decision to mark on each side."""
    if parting is None or parting.what is Difference.GRAPH:
        return [None] * count
    return [parting.before, parting.after][-count:]


def _ticks(span: int) -> Iterator[tuple[float, str]]:
    """Yield the place and the name of round times."""
    step = 10 ** (len(str(span)) - 1)
    steps = (step // 5 or 1, step // 2 or 1, step, step * 2)
    step = next(each for each in steps if span / each <= MOST_TICKS)
    for at in range(0, span + 1, step):
        yield round(at / span * WIDTH, 1), f"{at / 1e6:g} s"
