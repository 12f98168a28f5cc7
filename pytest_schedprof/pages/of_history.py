"""Series over many runs with their change points, as a page shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from pytest_schedprof.model.history import Series, Step, Trend
from pytest_schedprof.model.metric import METRICS, readable
from pytest_schedprof.pages.amounts import name_of
from pytest_schedprof.pages.views import Mark, Spark, TrendRow
from pytest_schedprof.reports.history import (
    change_of,
    changes_in,
    facts_of,
    has_changed,
    label,
)

WIDTH, HEIGHT, EDGE = 240, 36, 4

Place: TypeAlias = Callable[[float, float], tuple[float, float]]
"""Of a figure's number and value, in the picture."""


def trend_rows(series: Iterable[Series]) -> tuple[TrendRow, ...]:
    """What the scheduler as a whole cost, and whatever else changed."""
    return tuple(_row(each) for each in series if not each.subject or has_changed(each))


def changed_rows(series: Iterable[Series], most: int) -> tuple[TrendRow, ...]:
    """Of all tests what changed, as it changed last."""
    found = [each for each in series if has_changed(each)]
    found.sort(key=lambda each: max(map(_end, _changes(each))), reverse=True)
    return tuple(_row(each) for each in found[:most])


def _changes(series: Series) -> list[Step | Trend]:
    return [*series.course.steps, *series.course.trends]


def _end(change: Step | Trend) -> int:
    return change.at if isinstance(change, Step) else change.last


def _row(series: Series) -> TrendRow:
    first, last = series.figures[0].value, series.figures[-1].value
    metric = METRICS[series.metric]
    return TrendRow(
        test_id=series.setting.test_id,
        metric=series.metric,
        name=name_of(series.subject),
        setting=facts_of(series.setting),
        first=readable(first, metric),
        last=readable(last, metric),
        change=change_of(series.metric, first, last),
        figures=len(series.figures),
        notes=tuple(changes_in(series)),
        spark=_spark(series),
    )


def _spark(series: Series) -> Spark:
    values = [figure.value for figure in series.figures]
    place = _places(values)
    return Spark(
        line=_path([place(*each) for each in enumerate(values)]),
        levels=tuple(_path([place(*end) for end in level]) for level in _levels(series)),
        marks=tuple(_mark(series, step, place) for step in series.course.steps),
    )


def _places(values: Sequence[float]) -> Place:
    low, high = min(values), max(values)
    span, last = (high - low) or 1.0, max(1, len(values) - 1)

    def place(number: float, value: float) -> tuple[float, float]:
        up = (value - low) / span if high > low else 0.5
        x = EDGE + (WIDTH - 2 * EDGE) * number / last
        return round(x, 1), round(HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * up, 1)

    return place


def _path(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def _levels(series: Series) -> Iterator[tuple[tuple[int, float], tuple[int, float]]]:
    """From step to step what was before and after, and each trend as it rises or falls."""
    steps = series.course.steps
    if steps:
        yield (0, steps[0].before), (steps[0].at - 1, steps[0].before)
        yield (steps[-1].at, steps[-1].after), (len(series.figures) - 1, steps[-1].after)
    for one, other in pairwise(steps):
        yield (one.at, one.after), (other.at - 1, other.before)
    for trend in series.course.trends:
        yield (trend.first, trend.before), (trend.last, trend.after)


def _mark(series: Series, step: Step, place: Place) -> Mark:
    x, y = place(step.at, series.figures[step.at].value)
    return Mark(x, y, label(series.figures[step.at].moment))
