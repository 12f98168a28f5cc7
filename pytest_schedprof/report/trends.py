"""Series of figures over many runs, with their steps and trends, as rows and as words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple, TypeAlias

from pytest_schedprof.judge.change_points import MIN_POINTS
from pytest_schedprof.judge.series import LEAST_RUNS, counts_from, departure, least_change, usual
from pytest_schedprof.model.metric import METRICS, readable
from pytest_schedprof.model.run import History, Moment, Series, Setting, Step, Trend
from pytest_schedprof.report.words import Name, change_of, counted, name_of, with_mode

SHORT_SHA = 9
"""Digits of a commit: enough for any repository."""

Point: TypeAlias = tuple[float, float]
"""A figure's place in a picture, both coordinates from 0 to 1, upwards."""


class Mark(NamedTuple):
    """A step in a picture."""

    point: Point
    label: str


class Spark(NamedTuple):
    """A series as a small picture."""

    line: tuple[Point, ...]
    levels: tuple[tuple[Point, Point], ...]
    """The level between two change points, or the line of a trend."""
    marks: tuple[Mark, ...]


class TrendRow(NamedTuple):
    """A series over many runs."""

    test_id: str
    metric: str
    name: Name
    setting: str
    """What must be the same for figures to be of one series."""
    first: str
    last: str
    change: str
    figures: int
    notes: tuple[str, ...]
    """Its steps and trends."""
    spark: Spark


def series_by_test(
    series: Iterable[Series],
) -> Iterator[tuple[str, list[tuple[Setting, list[Series]]]]]:
    """Group series by test, and those of a test by setting."""
    for test_id, of_test in groupby(series, key=lambda each: each.setting.test_id):
        settings = groupby(of_test, key=lambda each: each.setting)
        yield test_id, [(setting, list(group)) for setting, group in settings]


def shown_series(series: Iterable[Series], *, every: bool = False) -> list[Series]:
    """Return the series of the scheduler as a whole and those that changed, or every one."""
    return [each for each in series if every or not each.subject or _has_changed(each)]


def _has_changed(series: Series) -> bool:
    return bool(series.course.steps or series.course.trends)


def trend_rows(series: Iterable[Series]) -> tuple[TrendRow, ...]:
    """Return rows of the series of one test that are worth showing."""
    return tuple(map(trend_row, shown_series(series)))


def changed_rows(series: Iterable[Series], most: int) -> tuple[TrendRow, ...]:
    """Return the series of all tests that changed, those that changed last first."""
    found = [each for each in series if _has_changed(each)]
    found.sort(key=lambda each: max(map(_end, _changes(each))), reverse=True)
    return tuple(map(trend_row, found[:most]))


def _changes(series: Series) -> list[Step | Trend]:
    return [*series.course.steps, *series.course.trends]


def _end(change: Step | Trend) -> int:
    return change.at if isinstance(change, Step) else change.last


def trend_row(series: Series) -> TrendRow:
    """Return the row of one series."""
    first, last = series.figures[0].value, series.figures[-1].value
    return TrendRow(
        test_id=series.setting.test_id,
        metric=series.metric,
        name=name_of(series.subject),
        setting=setting_words(series.setting),
        first=_amount(series, first),
        last=_amount(series, last),
        change=change_of(series.metric, first, last),
        figures=len(series.figures),
        notes=tuple(_notes(series)),
        spark=_spark(series),
    )


def setting_words(setting: Setting) -> str:
    """Return the setting of a series, without its test."""
    words = [with_mode(setting.backend, setting.mode)]
    if setting.python:
        words.append(f"Python {setting.python}")
    if setting.cluster:
        words.append(f"{setting.cluster} cluster of {setting.workers}")
    if setting.scales:
        words.append(f"scales {', '.join(map(str, setting.scales))}")
    if setting.machine:
        words.append(f"on {setting.machine}")
    return ", ".join(words)


def series_name(series: Series) -> str:
    """Return the metric with its subject, as a limit names it."""
    return f"{series.metric}({series.subject})" if series.subject else series.metric


def _amount(series: Series, value: float) -> str:
    return readable(value, METRICS[series.metric])


def _notes(series: Series) -> Iterator[str]:
    for step in series.course.steps:
        yield f"step at {_place_of(series, step)}: {_sizes(series, step)}{_versions(series, step)}"
    for trend in series.course.trends:
        first, last = (series.figures[at].moment for at in (trend.first, trend.last))
        yield f"trend from {_dated(first)} to {_dated(last)}: {_sizes(series, trend)}"
    yield from _noise(series)


def _noise(series: Series) -> Iterator[str]:
    """Say of a noisy series from which rise on a comparison with these runs tells it."""
    values = values_of(series)
    if len(values) < LEAST_RUNS:
        return
    found = usual(values)
    is_exact = METRICS[series.metric].is_exact
    rise = departure(values) if is_exact else counts_from(found)
    relative, absolute = least_change(series.metric)
    if rise > max(relative * found.level, absolute):
        told = change_of(series.metric, found.level, found.level + rise)
        why = "runs departed so far and came back" if is_exact else "in two runs"
        yield f"noisy: a comparison with these runs tells {told} and more, {why}"


def _sizes(series: Series, change: Step | Trend) -> str:
    before, after = (_amount(series, value) for value in (change.before, change.after))
    return f"{before} -> {after}, {change_of(series.metric, change.before, change.after)}"


def _place_of(series: Series, step: Step) -> str:
    """Return where a step is; there may be commits between the two that no run measured."""
    before, after = (series.figures[at].moment for at in (step.at - 1, step.at))
    if _label(before) == _label(after):
        return f"{_dated(after)}, between two runs of that commit"
    return f"{_dated(after)}, after {_label(before)}"


def _versions(series: Series, step: Step) -> str:
    before, after = (series.figures[at].moment.distributed for at in (step.at - 1, step.at))
    return f"; distributed {before} -> {after}" if before != after else ""


def _label(moment: Moment) -> str:
    """Return a commit, with a + if files differed from it, or the run where there is no commit."""
    commit = moment.commit
    if commit is None:
        return f"run {moment.run_id}"
    return commit.sha[:SHORT_SHA] + ("+" if commit.is_dirty else "")


def _dated(moment: Moment) -> str:
    return f"{_label(moment)} ({_time(moment)[:10]})"


def _time(moment: Moment) -> str:
    return moment.commit.time if moment.commit else moment.started_at


def history_words(history: History) -> Iterator[str]:
    """Return the commits with steps, then what the history consists of."""
    steps = [(series, step) for series in history.series for step in series.course.steps]
    if steps:
        yield "commits with steps:"
    for (time, name), group in groupby(sorted(steps, key=_when), key=_when):
        found = list(group)
        up = sum(step.after > step.before for _, step in found)
        tests = counted(len({series.setting.test_id for series, _ in found}), "test")
        yield f"  {name} ({time[:10]}): {up} up, {len(found) - up} down, in {tests}"
    short = sum(len(series.figures) < MIN_POINTS for series in history.series)
    if short:
        yield f"{_series(short)} with fewer than {MIN_POINTS} figures, too few to find steps"
    trends = sum(len(series.course.trends) for series in history.series)
    yield (
        f"{counted(history.runs, 'run')}, {_series(len(history.series))}: "
        f"{counted(len(steps), 'step')}, {counted(trends, 'trend')}"
    )


def _series(count: int) -> str:
    return counted(count, "series", "series")


def _when(pair: tuple[Series, Step]) -> tuple[str, str]:
    series, step = pair
    moment = series.figures[step.at].moment
    return _time(moment), _label(moment)


def _spark(series: Series) -> Spark:
    values = [figure.value for figure in series.figures]
    scale = _Scale(min(values), max(values), max(1, len(values) - 1))
    return Spark(
        line=tuple(scale.point(*each) for each in enumerate(values)),
        levels=tuple((scale.point(*one), scale.point(*end)) for one, end in _levels(series)),
        marks=tuple(
            Mark(scale.point(step.at, values[step.at]), _label(series.figures[step.at].moment))
            for step in series.course.steps
        ),
    )


class _Scale(NamedTuple):
    low: float
    high: float
    last: int

    def point(self, number: int, value: float) -> Point:
        """Return the place of a figure; a series that never changes is drawn in the middle."""
        span = self.high - self.low
        return number / self.last, (value - self.low) / span if span else 0.5


def _levels(series: Series) -> Iterator[tuple[tuple[int, float], tuple[int, float]]]:
    """Return the level between each two steps, and the line of each trend."""
    steps = series.course.steps
    if steps:
        yield (0, steps[0].before), (steps[0].at - 1, steps[0].before)
        yield (steps[-1].at, steps[-1].after), (len(series.figures) - 1, steps[-1].after)
    for one, other in pairwise(steps):
        yield (one.at, one.after), (other.at - 1, other.before)
    for trend in series.course.trends:
        yield (trend.first, trend.before), (trend.last, trend.after)


def values_of(series: Series) -> Sequence[float]:
    """Return the figures of a series, the oldest first."""
    return [figure.value for figure in series.figures]
