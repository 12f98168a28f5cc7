"""Output of `schedprof history` as text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from pytest_schedprof.model.history import History, Series
from pytest_schedprof.presentation.trends import (
    history_words,
    series_by_test,
    series_name,
    setting_words,
    shown_series,
    trend_row,
    values_of,
)
from pytest_schedprof.reports.lines import BARS, Line, sparkline
from pytest_schedprof.reports.markdown import code, lines, plain, row

SCHEMA_VERSION = 1

NAME_WIDTH = 60

TABLE = ("| metric | first | last | change | history | |", "|---|--:|--:|--:|---|---|")


def as_json(history: History) -> str:
    """Return all series as JSON; steps and trends refer to figures by index."""
    record = {"schema_version": SCHEMA_VERSION, **msgspec.to_builtins(history)}
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode()


def as_text(history: History, *, every: bool = False, bars: str = BARS) -> str:
    """Return a few lines for each test, then the commits with steps.

    Args:
        every: also series of owners and functions in which nothing changed.
        bars: characters, the lowest first.
    """
    text: list[str] = []
    for test_id, settings in series_by_test(history.series):
        text.append(test_id)
        for setting, series in settings:
            shown = shown_series(series, every=every)
            text.append(f"  {setting_words(setting)}")
            text += _rows(shown, bars)
            if len(shown) < len(series):
                text.append(f"    {len(series) - len(shown)} more series without a change")
        text.append("")
    return "\n".join(Line(each).text for each in (*text, *history_words(history)))


def as_markdown(history: History, *, every: bool = False) -> str:
    """Return the series as tables, for a pull request or the summary of a CI job."""
    text: list[str] = []
    for test_id, settings in series_by_test(history.series):
        text += [f"### {code(test_id)}", ""]
        for setting, series in settings:
            text += [plain(setting_words(setting)), "", *TABLE]
            text += [_markdown_row(each) for each in shown_series(series, every=every)]
            text.append("")
    return "\n".join([*text, *(f"- {plain(line.strip())}" for line in history_words(history))])


def _rows(series: Sequence[Series], bars: str) -> Iterator[str]:
    width = min(max((len(series_name(each)) for each in series), default=0), NAME_WIDTH)
    for each in series:
        row = trend_row(each)
        figures = f"{row.first:>12} -> {row.last:<12}{row.change:>9}"
        yield f"    {series_name(each):<{width}}{figures}  {sparkline(values_of(each), bars)}"
        yield from (f"      {text}" for text in row.notes)


def _markdown_row(series: Series) -> str:
    found = trend_row(series)
    figures = (found.first, found.last, found.change, sparkline(values_of(series), BARS))
    notes = lines(map(plain, found.notes))
    return row([code(series_name(series)), *map(plain, figures), notes])
