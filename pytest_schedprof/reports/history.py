"""What `schedprof history` prints: for people, for pull requests, and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import msgspec

from pytest_schedprof.analysis.change_points import MIN_POINTS
from pytest_schedprof.model.commit import Commit
from pytest_schedprof.model.history import History, Moment, Series, Setting, Step, Trend
from pytest_schedprof.model.metric import METRICS, PERCENT, readable
from pytest_schedprof.reports.markdown import code
from pytest_schedprof.reports.sparkline import BARS, sparkline

SCHEMA_VERSION = 1

SHORT = 9
"""Digits of a commit: enough for any repository."""

NAME_WIDTH = 60


def as_json(history: History) -> str:
    """All series, with the version first; steps and trends name figures by their place."""
    record = {"schema_version": SCHEMA_VERSION, **msgspec.to_builtins(history)}
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode()


def as_text(history: History, *, every: bool = False, bars: str = BARS) -> str:
    """A few lines for each test, then the commits with steps.

    Args:
        every: also series of owners and functions in which nothing changed.
        bars: characters, the lowest first.
    """
    lines: list[str] = []
    for test_id, settings in _by_test(history.series):
        lines.append(test_id)
        for setting, series in settings:
            shown = _shown(series, every)
            lines.append(f"  {facts_of(setting)}")
            lines += _rows(shown, bars)
            if len(shown) < len(series):
                lines.append(f"    {len(series) - len(shown)} more without a change")
        lines.append("")
    return "\n".join([*lines, *_closing(history)])


def as_markdown(history: History, *, every: bool = False) -> str:
    """The same as tables, for a pull request or a summary of a CI job."""
    lines: list[str] = []
    for test_id, settings in _by_test(history.series):
        lines += [f"### {code(test_id)}", ""]
        for setting, series in settings:
            lines += [facts_of(setting), "", "| metric | first | last | change | history | |"]
            lines.append("|---|--:|--:|--:|---|---|")
            lines += [_markdown_row(each) for each in _shown(series, every)]
            lines.append("")
    return "\n".join([*lines, *(f"- {line.strip()}" for line in _closing(history))])


def _by_test(
    series: Iterable[Series],
) -> Iterator[tuple[str, list[tuple[Setting, list[Series]]]]]:
    for test_id, of_test in groupby(series, key=lambda each: each.setting.test_id):
        settings = groupby(of_test, key=lambda each: each.setting)
        yield test_id, [(setting, list(group)) for setting, group in settings]


def _shown(series: Sequence[Series], every: bool) -> list[Series]:
    return [each for each in series if every or not each.subject or has_changed(each)]


def has_changed(series: Series) -> bool:
    """Whether there is more to say of it than its figures."""
    return bool(series.course.steps or series.course.trends)


def facts_of(setting: Setting) -> str:
    mode = f" ({setting.mode})" if setting.mode else ""
    scales = f", scales {', '.join(map(str, setting.scales))}" if setting.scales else ""
    cluster = f", {setting.cluster} cluster of {setting.workers}" if setting.cluster else ""
    python = f", Python {setting.python}" if setting.python else ""
    machine = f", on {setting.machine}" if setting.machine else ""
    return f"{setting.backend}{mode}{python}{cluster}{scales}{machine}"


def _rows(series: Sequence[Series], bars: str) -> Iterator[str]:
    width = min(max((len(series_name(each)) for each in series), default=0), NAME_WIDTH)
    for each in series:
        first, last = each.figures[0].value, each.figures[-1].value
        amounts = f"{_amount(each, first):>12} -> {_amount(each, last):<12}"
        change = f"{change_of(each.metric, first, last):>9}"
        yield f"    {series_name(each):<{width}}{amounts}{change}  {_course(each, bars)}"
        yield from (f"      {text}" for text in changes_in(each))


def _markdown_row(series: Series) -> str:
    first, last = series.figures[0].value, series.figures[-1].value
    cells = [
        code(series_name(series)),
        *(_amount(series, value) for value in (first, last)),
        change_of(series.metric, first, last),
        _course(series, BARS),
        "<br>".join(changes_in(series)),
    ]
    return f"| {' | '.join(cells)} |"


def series_name(series: Series) -> str:
    """As a limit would name it."""
    return f"{series.metric}({series.subject})" if series.subject else series.metric


def _amount(series: Series, value: float) -> str:
    return readable(value, METRICS[series.metric])


def change_of(metric: str, before: float, after: float) -> str:
    """Of shares in points, of all else in parts."""
    if METRICS[metric].units is PERCENT:
        return f"{(after - before) * 100:+.1f} pp"
    if before == after:
        return "+0.0%"
    return f"{after / before - 1:+.1%}" if before else "from none"


def changes_in(series: Series) -> Iterator[str]:
    for step in series.course.steps:
        yield f"step at {_place_of(series, step)}: {_sizes(series, step)}{_versions(series, step)}"
    for trend in series.course.trends:
        first, last = (series.figures[at].moment for at in (trend.first, trend.last))
        yield f"trend from {_dated(first)} to {_dated(last)}: {_sizes(series, trend)}"


def _sizes(series: Series, change: Step | Trend) -> str:
    before, after = (_amount(series, value) for value in (change.before, change.after))
    return f"{before} -> {after}, {change_of(series.metric, change.before, change.after)}"


def _place_of(series: Series, step: Step) -> str:
    """Commits that no run was made at may lie between the two."""
    before, after = (series.figures[at].moment for at in (step.at - 1, step.at))
    if label(before) == label(after):
        return f"{_dated(after)}, between two runs of it"
    return f"{_dated(after)}, after {label(before)}"


def _versions(series: Series, step: Step) -> str:
    before, after = (series.figures[at].moment.distributed for at in (step.at - 1, step.at))
    return f"; distributed {before} -> {after}" if before != after else ""


def label(moment: Moment) -> str:
    """A commit, with a + if files differed from it, or the run where there is none."""
    return _short(moment.commit) if moment.commit else f"run {moment.run_id}"


def _short(commit: Commit) -> str:
    return commit.sha[:SHORT] + ("+" if commit.is_dirty else "")


def _dated(moment: Moment) -> str:
    return f"{label(moment)} ({_time(moment)[:10]})"


def _time(moment: Moment) -> str:
    return moment.commit.time if moment.commit else moment.started_at


def _course(series: Series, bars: str) -> str:
    return sparkline([figure.value for figure in series.figures], bars)


def _closing(history: History) -> Iterator[str]:
    steps = [(series, step) for series in history.series for step in series.course.steps]
    if steps:
        yield "commits with steps:"
    for (time, name), group in groupby(sorted(steps, key=_when), key=_when):
        found = list(group)
        up = sum(step.after > step.before for _, step in found)
        tests = len({series.setting.test_id for series, _ in found})
        yield f"  {name} ({time[:10]}): {up} up, {len(found) - up} down, in {_many(tests, 'test')}"
    short = sum(len(series.figures) < MIN_POINTS for series in history.series)
    if short:
        yield f"{_many(short, 'series')} of fewer than {MIN_POINTS} figures, too few for a step"
    trends = sum(len(series.course.trends) for series in history.series)
    yield (
        f"{_many(history.runs, 'run')}, {_many(len(history.series), 'series')}: "
        f"{_many(len(steps), 'step')}, {_many(trends, 'trend')}"
    )


def _when(pair: tuple[Series, Step]) -> tuple[str, str]:
    series, step = pair
    moment = series.figures[step.at].moment
    return _time(moment), label(moment)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 or noun == "series" else f"{count} {noun}s"
