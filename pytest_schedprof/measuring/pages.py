"""What the pages of a run show beside its records: a comparison, explanations, earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from pytest_schedprof.errors import ArtifactError, BaselineError
from pytest_schedprof.judge.compare import compare
from pytest_schedprof.judge.explanation import Pairs, why_regressed
from pytest_schedprof.judge.parting import with_partings
from pytest_schedprof.judge.recordings import Saved, other_of
from pytest_schedprof.judge.series import NEWEST_RUNS, Choice, series_in
from pytest_schedprof.model.backend import NO_BACKENDS, KnownBackends
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.explanation import Explanation
from pytest_schedprof.model.run import Series, TestEntry
from pytest_schedprof.report.pages import PageOfRun, RowOfTest, page_of_test, row_of
from pytest_schedprof.report.trends import shown_series
from pytest_schedprof.store.run_directory import PAGE, write
from pytest_schedprof.store.runs import (
    Archive,
    KeptRun,
    KeptTest,
    ResultsOfRuns,
    attempt,
    decided_in_run,
    find_run,
)


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
    run, before = find_run(directory), None
    compared: dict[str, list[Comparison]] = {}
    if against is not None:
        before = find_run(against)
        compared = _comparisons(before, run)
    elif beside is not None:
        with suppress(ArtifactError):  # without it no flame graph shows a difference
            before = find_run(beside)
    series, words = _past(history) if history else ((), "")
    pages = _Pages(run, before, against, known, explained, series)
    page, reasons = PageOfRun(known), list(explained or ())
    for entry in run.record.tests:
        row, of_test = pages.write(entry, compared.get(entry.test_id, ()))
        page.add(row)
        reasons += of_test if explained is None else ()
    write(run.path / PAGE, _encoded(page.text(run.record, reasons, series, words)))
    return run.path / PAGE


class _Pages:
    """The pages of the tests of a run."""

    def __init__(
        self,
        run: KeptRun,
        before: KeptRun | None,
        against: Path | None,
        known: KnownBackends,
        explained: Sequence[Explanation] | None,
        series: Sequence[Series],
    ) -> None:
        """Take what is the same for all tests, as `write_pages` has it."""
        self._run, self._before, self._known = run, before, known
        self._against, self._explained, self._series = against, explained, series
        self._saved = Saved(run.path)
        self._pairs = Pairs(run.path, str(run.path.parent), against)

    def write(
        self, entry: TestEntry, comparisons: Sequence[Comparison]
    ) -> tuple[RowOfTest, list[Explanation]]:
        """Write the page of a test; return what the page of the run shows, and why it regressed."""
        test = attempt(self._run.path, entry)
        if self._against and self._before and test.result:
            name = self._before.path.name
            test = replace(
                test, result=replace(test.result, baseline=name, comparisons=tuple(comparisons))
            )
        row = row_of(test, self._known)
        if test.result is None:
            return row, []
        reasons = [reason for reason in self._explained or () if reason.test_id == entry.test_id]
        if self._explained is None and test.result.has_regressed:
            reasons = list(why_regressed([KeptTest(test.directory, test.result)], self._pairs))
        past = shown_series(
            series for series in self._series if series.setting.test_id == entry.test_id
        )
        other = other_of(test, self._before, self._saved)
        text = page_of_test(test, self._run.path, other, self._known, reasons, past)
        write(test.directory / PAGE, _encoded(text))
        return row, reasons


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _comparisons(before: KeptRun, run: KeptRun) -> dict[str, list[Comparison]]:
    """Return the comparisons of each test with another run, as its session would have made them.

    Raises:
        BaselineError: if they have no test in common.
    """
    sides = before, run
    results, names = map(ResultsOfRuns, sides), (before.path.name, run.path.name)
    report = compare(*results, names=names)
    if not report.comparisons:
        raise BaselineError(
            f"schedprof: {str(before.path)!r} and {str(run.path)!r} have no test in common that "
            f"was measured in both ({len(before.files)} and {len(run.files)} tests)"
        )
    readers = (partial(decided_in_run, side.path) for side in sides)
    comparisons: dict[str, list[Comparison]] = {}
    for comparison in with_partings(report, *readers).comparisons:
        comparisons.setdefault(comparison.test_id, []).append(comparison)
    return comparisons


def _past(place: str) -> tuple[list[Series], str]:
    """Return the series of the newest runs at a path or URL, and what these are in words.

    Raises:
        ArtifactError: if no run there can be read.
    """
    archive = Archive(place)
    runs = archive.runs(last=NEWEST_RUNS)
    series = list(series_in(archive, runs, Choice()))
    skipped = f"; {len(archive.skipped)} could not be read" if archive.skipped else ""
    return series, f"{len(runs)} runs in order of commits{skipped}"
