"""What a search tells: the figure that it follows, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_schedprof.bisecting.versions import Versions
from pytest_schedprof.model.metric import METRICS, PERCENT, readable
from pytest_schedprof.presentation.amounts import WHOLE, change_of, counted
from pytest_schedprof.searching.target import Target

if TYPE_CHECKING:
    from pytest_schedprof.bisecting.finding import Found

MOST_NAMED = 20
"""Suspects of a range that are named."""


def amount(target: Target, value: float) -> str:
    """Return a value of the figure that is followed."""
    metric = METRICS[target.change.metric]
    is_per_task = not metric.is_peak and metric.units is not PERCENT
    return f"{readable(value, metric)}{' per task' if is_per_task else ''}"


def figure_words(target: Target) -> str:
    """Return which figure is followed."""
    return f"{target.change.metric} of {target.change.subject or WHOLE} in {target.test_id}"


def found_lines(found: Found, versions: Versions) -> Iterator[str]:
    """Yield what was found, and how sure that is."""
    suspects = found.search.suspects
    if len(suspects) == 1:
        yield f"the first bad {versions.noun} is {versions.label(suspects[0])}"
        yield from (f"  {line}" for line in versions.about(suspects[0]))
    else:
        yield from _range_lines(suspects, versions)
    yield f"  {_step(found)}"
    between = counted(len(versions.names), versions.noun)
    yield f"  {counted(found.runs, 'run')} of the test for {between}"


def _range_lines(suspects: Sequence[int], versions: Versions) -> Iterator[str]:
    yield f"the first bad {versions.noun} is one of {len(suspects)}; all but the last were skipped:"
    yield from (f"  {versions.label(each)}" for each in suspects[:MOST_NAMED])
    if len(suspects) > MOST_NAMED:
        yield f"  ... and {len(suspects) - MOST_NAMED} more"


def _step(found: Found) -> str:
    """Return the change there, and which part of the change between both ends it is."""
    target, (before, after) = found.target, found.values
    change = change_of(target.change.metric, before, after)
    return (
        f"{figure_words(target)}: {amount(target, before)} before, {amount(target, after)} now "
        f"({change}), {target.part(before, after):.0%} of the change between both ends"
    )
