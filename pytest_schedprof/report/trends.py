"""Series of figures over many runs, with their steps, as rows and as words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from pytest_schedprof.formats.charts import Scale, element, in_page, line
from pytest_schedprof.judge.change_points import MIN_POINTS
from pytest_schedprof.judge.series import (
    LEAST_RUNS,
    counts_from,
    departure,
    label_of,
    least_change,
    usual,
)
from pytest_schedprof.model.metric import METRICS, readable
from pytest_schedprof.model.run import History, Moment, Series, Setting, Step
from pytest_schedprof.report.words import change_of, counted


def series_by_test(
    series: Iterable[Series],
) -> Iterator[tuple[str, list[tuple[Setting, list[Series]]]]]:
    """Group series by test, and those of a test by setting."""
    for test_id, of_test in groupby(series, key=lambda row: row.setting.test_id):
        settings = groupby(of_test, key=lambda row: row.setting)
        yield test_id, [(setting, list(group)) for setting, group in settings]


def shown_series(series: Iterable[Series], *, every: bool = False) -> list[Series]:
    """Return the series of the scheduler as a whole and those that changed, or every one."""
    return [row for row in series if every or not row.subject or row.steps]


def changed_series(series: Iterable[Series], most: int) -> list[Series]:
    """Return the series of all tests that changed, those that changed last first."""
    changed = [row for row in series if row.steps]
    return sorted(changed, key=lambda row: _when((row, row.steps[-1])), reverse=True)[:most]


def ends_of(series: Series) -> tuple[str, str, str]:
    """Return the first figure, the last one, and the change between them."""
    first, last = series.figures[0].value, series.figures[-1].value
    return _amount(series, first), _amount(series, last), change_of(series.metric, first, last)


def setting_words(setting: Setting) -> str:
    """Return the setting of a series, without its test."""
    words = [label_of(setting)]
    if setting.python:
        words.append(f"Python {setting.python}")
    if setting.cluster:
        size = f" of {setting.workers}" if setting.workers else ""
        words.append(f"{setting.cluster} cluster{size}")
    if setting.scales:
        words.append(f"scales {', '.join(map(str, setting.scales))}")
    if setting.is_repeated:
        words.append("several rounds")
    if setting.machine:
        words.append(f"on {setting.machine}")
    return ", ".join(words)


def series_name(series: Series) -> str:
    """Return the metric with its subject, as a limit names it."""
    return f"{series.metric}({series.subject})" if series.subject else series.metric


def _amount(series: Series, value: float) -> str:
    return readable(value, METRICS[series.metric])


def notes_of_series(series: Series) -> Iterator[str]:
    """Yield the steps of a series, and from which rise on a noisy one tells one."""
    for step in series.steps:
        before, after = (series.figures[place].moment for place in (step.at - 1, step.at))
        place = f"after {_label(before)}"  # there may be commits between that no run measured
        if _label(before) == _label(after):
            place = "between two runs of that commit"
        versions = f"; distributed {before.distributed} -> {after.distributed}"
        has_changed = before.distributed != after.distributed
        yield (
            f"step at {_label(after)} ({_time(after)[:10]}), {place}: "
            f"{_sizes(series, step)}{versions if has_changed else ''}"
        )
    yield from _noise(series)


def _noise(series: Series) -> Iterator[str]:
    """Say of a noisy series from which rise on a comparison with these runs tells it."""
    values = values_of(series)
    if len(values) < LEAST_RUNS:
        return
    level = usual(values)
    is_exact = METRICS[series.metric].is_exact
    rise = departure(values) if is_exact else counts_from(level)
    relative, absolute = least_change(series.metric)
    if rise > max(relative * level.value, absolute):
        words = change_of(series.metric, level.value, level.value + rise)
        why = "runs departed so far and came back" if is_exact else "in two runs"
        yield f"noisy: a comparison with these runs tells {words} and more, {why}"


def _sizes(series: Series, step: Step) -> str:
    before, after = (_amount(series, value) for value in (step.before, step.after))
    return f"{before} -> {after}, {change_of(series.metric, step.before, step.after)}"


def _label(moment: Moment) -> str:
    """Return a commit, with a + if files differed from it, or the run where there is no commit."""
    return moment.commit.short if moment.commit else f"run {moment.run_id}"


def _time(moment: Moment) -> str:
    return moment.commit.time if moment.commit else moment.started_at


def history_words(history: History) -> Iterator[str]:
    """Return the commits with steps, then what the history consists of."""
    steps = [(series, step) for series in history.series for step in series.steps]
    if steps:
        yield "commits with steps:"
    for (time, name), group in groupby(sorted(steps, key=_when), key=_when):
        changed = list(group)
        up = sum(step.after > step.before for _, step in changed)
        tests = counted(len({series.setting.test_id for series, _ in changed}), "test")
        yield f"  {name} ({time[:10]}): {up} up, {len(changed) - up} down, in {tests}"
    short = sum(len(series.figures) < MIN_POINTS for series in history.series)
    if short:
        yield f"{short} series with fewer than {MIN_POINTS} figures, too few to find steps"
    runs, steps_in_words = counted(history.runs, "run"), counted(len(steps), "step")
    yield f"{runs}, {len(history.series)} series: {steps_in_words}"


def _when(pair: tuple[Series, Step]) -> tuple[str, str]:
    series, step = pair
    moment = series.figures[step.at].moment
    return _time(moment), _label(moment)


def spark(series: Series, label: str) -> str:
    """Draw a series with its levels and steps; the margin is what the circles of steps need."""
    x, y = Scale(1.0, 232, 4), Scale(1.0, -28, 32)

    def through(figures: Iterable[tuple[int, float]], name: str) -> str:
        points = (_point(series, *figure) for figure in figures)
        return line([(x(moment), y(up)) for moment, up in points], class_=name)

    parts = [through(enumerate(values_of(series)), "line")]
    parts += [through(level, "level") for level in _levels(series)]
    for step in series.steps:
        figure = series.figures[step.at]
        moment, up = _point(series, step.at, figure.value)
        place = {"cx": x(moment), "cy": y(up), "r": 3}
        parts.append(element("circle", class_="step", title=_label(figure.moment), **place))
    return in_page(label, (0, 0, 240, 36), parts, class_="spark", width=240, height=36)


def _point(series: Series, number: int, value: float) -> tuple[float, float]:
    """Return the place of a figure in a picture, both coordinates from 0 to 1, upwards.

    A series that never changes is drawn in the middle.
    """
    values = values_of(series)
    low, span = min(values), max(values) - min(values)
    return number / max(1, len(values) - 1), (value - low) / span if span else 0.5


def _levels(series: Series) -> Iterator[tuple[tuple[int, float], tuple[int, float]]]:
    """Yield the ends of the level between each two steps."""
    steps = series.steps
    if steps:
        yield (0, steps[0].before), (steps[0].at - 1, steps[0].before)
        yield (steps[-1].at, steps[-1].after), (len(series.figures) - 1, steps[-1].after)
    for one, other in pairwise(steps):
        yield (one.at, one.after), (other.at - 1, other.before)


def values_of(series: Series) -> Sequence[float]:
    """Return the figures of a series, the oldest first."""
    return [figure.value for figure in series.figures]
