"""What the pages of a run show beside its records: a comparison, explanations, earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from pytest_schedprof.errors import ArtifactError, BaselineError
from pytest_schedprof.judge.compare import compare
from pytest_schedprof.judge.explanation import Pairs, why_regressed
from pytest_schedprof.judge.parting import with_partings
from pytest_schedprof.judge.recordings import Saved, other_of
from pytest_schedprof.judge.series import Choice, series_in
from pytest_schedprof.model.backend import NO_BACKENDS, KnownBackends
from pytest_schedprof.model.explanation import Explanation
from pytest_schedprof.model.run import Series, by_test
from pytest_schedprof.report.pages import page_of_run, page_of_test
from pytest_schedprof.report.trends import shown_series
from pytest_schedprof.store.run_directory import PAGE, write
from pytest_schedprof.store.runs import Archive, RunFiles, decided_in_run, read_run

MOST_RUNS = 200
"""Earlier runs that are read: the time to find change points is quadratic in them."""


def write_pages(
    directory: Path,
    against: Path | None = None,
    history: str = "",
    *,
    beside: Path | None = None,
    known: KnownBackends = NO_BACKENDS,
    explained: Sequence[Explanation] | None = None,
) -> Path:
    """Write the pages of a run and its tests; return the path of the first one.

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
    run, before = read_run(directory), None
    if against is not None:
        before = read_run(against)
        run = _compared(run, before)
    elif beside is not None:
        with suppress(ArtifactError):  # without it no flame graph shows a difference
            before = read_run(beside)
    if explained is None:
        regressed = (test for test in run.kept_tests() if test.result.has_regressed)
        explained = why_regressed(regressed, Pairs(directory, str(directory.parent), against))
    series, words = _past(history) if history else ((), "")
    saved = Saved(run.path)
    for test in run.tests:
        if test.result is not None:
            other, name = other_of(test, before, saved), test.entry.test_id
            reasons = [explanation for explanation in explained if explanation.test_id == name]
            past = shown_series(figure for figure in series if figure.setting.test_id == name)
            page = page_of_test(test, run.path, other, known, reasons, past)
            write(test.directory / PAGE, _encoded(page))
    write(run.path / PAGE, _encoded(page_of_run(run, known, explained, series, words)))
    return run.path / PAGE


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _compared(run: RunFiles, before: RunFiles) -> RunFiles:
    """Return the run as if its session had compared it with another run.

    Raises:
        BaselineError: if they have no test in common.
    """
    names = (before.path.name, run.path.name)
    report = compare(by_test(before.results), by_test(run.results), names=names)
    if not report.comparisons:
        raise BaselineError(
            f"schedprof: {str(before.path)!r} and {str(run.path)!r} have no test in common that "
            f"was measured in both ({len(before.results)} and {len(run.results)} tests)"
        )
    readers = (partial(decided_in_run, side.path) for side in (before, run))
    report = with_partings(report, *readers)
    tests = []
    for test in run.tests:
        mine = tuple(of for of in report.comparisons if of.test_id == test.entry.test_id)
        if test.result:
            test = replace(test, result=replace(test.result, baseline=names[0], comparisons=mine))
        tests.append(test)
    return replace(run, tests=tuple(tests))


def _past(place: str) -> tuple[list[Series], str]:
    """Return the series of the newest runs at a path or URL, and what these are in words.

    Raises:
        ArtifactError: if no run there can be read.
    """
    archive = Archive(place)
    runs = archive.runs(last=MOST_RUNS)
    series = list(series_in(archive, runs, Choice()))
    skipped = f"; {len(archive.skipped)} could not be read" if archive.skipped else ""
    return series, f"{len(runs)} runs in order of commits{skipped}"
