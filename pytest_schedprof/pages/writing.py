"""Pages into the directory of a run: one for it, one for each of its tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.pages.of_history import changed_rows, trend_rows
from pytest_schedprof.pages.of_run import PAGE, page_of_run
from pytest_schedprof.pages.of_test import page_of_test
from pytest_schedprof.pages.others import compared, other_of
from pytest_schedprof.pages.past import Past, read_past
from pytest_schedprof.pages.reading import RunFiles, read_run
from pytest_schedprof.pages.rendering import render_run, render_test
from pytest_schedprof.storage.run_directory import write

CHANGED = 30
"""Series of all tests that the page of a run shows."""


def write_pages(
    directory: Path,
    against: Path | None = None,
    history: str = "",
    *,
    beside: Path | None = None,
) -> Path:
    """The page of the run; those of its tests are linked from there.

    Args:
        directory: of the run.
        against: directory of another run, to show what changed since.
        history: directory or URL of runs, to show how figures went.
        beside: directory of a run that its tests were compared with already, for its samples.

    Raises:
        ArtifactError: if there is no run, or the pages cannot be written.
        BaselineError: if the other run has no test in common with it.
    """
    run, before = read_run(directory), read_run(against) if against else None
    if before is not None:
        run = compared(run, before)
    past = read_past(history) if history else None
    _write_tests(run, before or _samples_of(beside), past)
    page = page_of_run(run)
    if past is not None:
        trends = changed_rows(past.series, CHANGED)
        page = replace(page, trends=trends, history=past.words)
    write(directory / PAGE, _encoded(render_run(page)))
    return directory / PAGE


def _write_tests(run: RunFiles, before: RunFiles | None, past: Past | None) -> None:
    for test in run.tests:
        if test.result is not None:
            other = other_of(test, before)
            page = page_of_test(test.result, test.directory, run.path, other)
            if past is not None:
                page = replace(page, trends=trend_rows(past.of(test.entry.test_id)))
            write(test.directory / PAGE, _encoded(render_test(page)))


def _samples_of(directory: Path | None) -> RunFiles | None:
    """Without them there are no differences, but pages nevertheless."""
    try:
        return read_run(directory) if directory else None
    except ArtifactError:
        return None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
