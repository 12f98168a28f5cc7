"""Write the pages of a run and of its tests into its directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.explaining.sides import Pairs, why_regressed
from pytest_schedprof.model.backend import NO_BACKENDS, KnownBackends
from pytest_schedprof.model.explanation import Explanation
from pytest_schedprof.pages.others import Past, Saved, compared, other_of, read_past
from pytest_schedprof.pages.reading import RunFiles, read_run
from pytest_schedprof.pages.reasons import reason_view
from pytest_schedprof.pages.rendering import render_run, render_test
from pytest_schedprof.pages.run_page import PAGE, page_of_run
from pytest_schedprof.pages.test_page import page_of_test
from pytest_schedprof.presentation.trends import changed_rows, trend_rows
from pytest_schedprof.storage.run_directory import write

SERIES_SHOWN = 30
"""Most series that the page of a run shows."""


def write_pages(
    directory: Path,
    against: Path | None = None,
    history: str = "",
    *,
    beside: Path | None = None,
    known: KnownBackends = NO_BACKENDS,
    explained: Sequence[Explanation] | None = None,
) -> Path:
    """Write the page of the run, and the pages of its tests, which it links.

    Args:
        directory: of the run.
        against: directory of another run, to show what changed since then.
        history: directory or URL of earlier runs, to show trends.
        beside: directory of the run that the session compared its tests with, for its samples.
        known: facts about backends, which tell what opens their files.
        explained: why tests regressed, if the session has found that out; else it is found here.

    Raises:
        ArtifactError: if there is no run, or if the pages cannot be written.
        BaselineError: if the two runs have no test in common.
    """
    run, before = read_run(directory), read_run(against) if against else None
    if before is not None:
        run = compared(run, before)
    past = read_past(history) if history else None
    if explained is None:
        regressed = (each for each in run.kept_tests() if each.result.has_regressed)
        explained = why_regressed(regressed, Pairs(directory, str(directory.parent), against))
    _write_tests(run, before or _samples_of(beside), past, known, explained)
    page = page_of_run(run, known, explained)
    if past is not None:
        trends = changed_rows(past.series, SERIES_SHOWN)
        page = replace(page, trends=trends, history=past.words)
    write(directory / PAGE, _encoded(render_run(page)))
    return directory / PAGE


def _write_tests(
    run: RunFiles,
    before: RunFiles | None,
    past: Past | None,
    known: KnownBackends,
    explained: Sequence[Explanation],
) -> None:
    saved = Saved(run.path)
    for test in run.tests:
        if test.result is not None:
            other = other_of(test, before, saved)
            page = page_of_test(test.result, test.directory, run.path, other, known)
            mine = (each for each in explained if each.test_id == test.entry.test_id)
            page = replace(page, reasons=tuple(map(reason_view, mine)))
            if past is not None:
                page = replace(page, trends=trend_rows(past.of(test.entry.test_id)))
            write(test.directory / PAGE, _encoded(render_test(page)))


def _samples_of(directory: Path | None) -> RunFiles | None:
    """Read the other run; if that fails, the pages have no differential flame graphs."""
    try:
        return read_run(directory) if directory else None
    except ArtifactError:
        return None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
