"""The end of a session: its records, pages, summary and baseline, and its lines on the terminal.

Imported with the first profiled test, or with the first result of one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_schedprof.analysis.recent import figures_of, recent_series
from pytest_schedprof.errors import SchedprofError, as_own, printable
from pytest_schedprof.model.explanation import Explanation
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import StoredResult
from pytest_schedprof.plugin.baselines import (
    check_comparison,
    inventory_lines,
    save_baseline,
    uncompared_lines,
)
from pytest_schedprof.plugin.stash import COMPARED_RUN, STARTED_AT, backends_of, run_of
from pytest_schedprof.reports.explanations import why_lines
from pytest_schedprof.reports.lines import WIDEST, Line, bars_for, capped
from pytest_schedprof.reports.packing import unpack
from pytest_schedprof.reports.run_summary import run_markdown
from pytest_schedprof.reports.terminal import summary_lines, unprofiled_lines
from pytest_schedprof.storage.records import begin_run, write_run
from pytest_schedprof.storage.run_directory import RunDirectory
from pytest_schedprof.storage.runs import last_records, read_test, unreported
from pytest_schedprof.storage.summary import write_summary

RANDOM_SETS = (
    "note: graphs contain sets of keys, which this process orders differently in each session; "
    "with PYTHONHASHSEED=0 each run in virtual time is the same"
)

MOST_EXPLAINED = 50
"""Tests of which is said why they regressed: the files of both sides take time to read."""

__all__ = ["Collector", "begin_run", "collect", "collector_of", "leave_out"]


def collect(config: pytest.Config, packed: dict[str, Any]) -> None:
    """Keep a test's packed result until the session ends."""
    collector_of(config).packed.append(packed)


def leave_out(config: pytest.Config, packed: dict[str, Any]) -> None:
    """Keep no result of an attempt that is repeated; its files stay in their directory."""
    collector_of(config).repeated.append(packed["directory"])


def collector_of(config: pytest.Config) -> Collector:
    """Return the session's collector; the first call makes it."""
    collector: Any = config.pluginmanager.get_plugin("schedprof-collector")
    if collector is None:
        collector = Collector(config)
        config.pluginmanager.register(collector, "schedprof-collector")
    return collector  # type: ignore[no-any-return]


class Collector:
    """Collects the results of the session's tests, or of its pytest-xdist workers."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.packed: list[dict[str, Any]] = []
        self.repeated: list[str] = []
        """Directories of attempts that were repeated, as by pytest-rerunfailures."""
        self.unprofiled: list[str] = []
        """Tests whose marker is not their own, and that ran no scheduler."""
        self.found: list[StoredResult] = []
        """Stored results that no report has brought: of interrupted or killed workers."""
        self.explained: list[Explanation] = []
        """Why tests regressed; found before this session saves a baseline over the one of then."""
        self.troubles: list[str] = []
        self.told: list[str] = []
        """Further lines for the terminal: the page, the baseline, what went wrong with them."""

    def results(self) -> list[StoredResult]:
        # Not a property: older releases of pluggy read every attribute of a registered plugin.
        return [*(unpack(packed) for packed in self.packed), *self.found]

    def finish(self, session: pytest.Session) -> None:
        """Write the record of the run, its summary, the baseline and the pages.

        A step that fails prevents no other one.
        """
        status = int(session.exitstatus)
        try:
            self._try(self._write_run, status)
            self._try(self._write_summary)
            is_in_vain = not all((self._try(self._save), self._try(self._check_comparison)))
            self._try(self._write_pages)
            self._try(self._note_random_sets)
        except KeyboardInterrupt:
            self.told.append("interrupted: `schedprof report` makes the pages of the run")
            session.exitstatus = pytest.ExitCode.INTERRUPTED
        else:
            # A user who asked for a baseline must not believe that there is one.
            if is_in_vain and not status:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if session.exitstatus != status:
            self._try(self._write_run, int(session.exitstatus))

    def _try(self, step: Callable[..., str | None], *arguments: Any) -> bool:
        """Make one step and keep the line that it returns; return whether it succeeded."""
        try:
            self.told.append(step(*arguments) or "")
        except Exception as error:
            self.troubles.append(str(as_own(error)))
            return False
        return True

    def _write_run(self, status: int) -> None:
        run = run_of(self.config)
        if not self.packed and not run.path.is_dir():
            return  # no profiled test has begun
        self.found = _unreported(run, self.packed, self.repeated)
        started_at = self.config.stash[STARTED_AT]
        write_run(run, started_at, status, self.results(), self.config.rootpath)

    def _write_summary(self) -> str | None:
        """Write the summary; return what went wrong with it, if anything."""
        found = self.results()
        if not found:
            return None
        run = run_of(self.config)
        self.explained = _explained(run, found)
        return _summary(self.config, run, found, self.explained)

    def _save(self) -> str:
        return save_baseline(self.config, run_of(self.config), bool(self.results()))

    def _check_comparison(self) -> None:
        check_comparison(self.config, [each.result for each in self.results()])

    def _write_pages(self) -> str | None:
        if not self.results():
            return None
        return _pages(self.config, run_of(self.config), self.explained)

    def _note_random_sets(self) -> str | None:
        """Return a line if runs in virtual time will differ for the order of sets."""
        is_virtual = any(
            each.result.cluster and each.result.cluster.kind == "virtual" for each in self.results()
        )
        is_random = os.environ.get("PYTHONHASHSEED", "random") in ("", "random")
        return RANDOM_SETS if is_virtual and is_random else None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        results = [stored.result for stored in self.results()]
        is_any = bool(results or any(self.told) or self.troubles)
        if not (is_any or self.unprofiled):
            return  # interrupted before the first test ended
        terminalreporter.section("schedprof")
        lines = _lines(self.config, terminalreporter, results, self.explained) if is_any else ()
        others = unprofiled_lines(self.unprofiled, self.config.get_verbosity())
        for line in (*lines, *others):
            terminalreporter.write_line(line.text, **line.markup)
        for text in filter(None, self.told):
            terminalreporter.write_line(printable(text))
        for text in self.troubles:
            terminalreporter.write_line(printable(text), red=True)


def _unreported(
    run: RunDirectory, packed: Sequence[dict[str, Any]], repeated: Sequence[str]
) -> list[StoredResult]:
    """Read stored results of tests that ended without a report."""
    found = unreported(run.path, [*(each["directory"] for each in packed), *repeated])
    return [StoredResult(str(path), result, figures_of(result)) for path, result in found]


def _lines(
    config: pytest.Config,
    terminalreporter: pytest.TerminalReporter,
    results: list[Result],
    explained: Sequence[Explanation],
) -> Iterator[Line]:
    """Yield the table of the session's tests, and lines about tests that are new or gone."""
    run = run_of(config)
    try:
        recent = recent_series(last_records(run.root, WIDEST))
    except OSError:  # unreadable earlier runs must not hide this session's table
        recent = {}
    bars = bars_for(getattr(terminalreporter._tw._file, "encoding", None))
    verbosity = config.get_verbosity()
    yield from summary_lines(
        results, _short(run.path), verbosity=verbosity, recent=recent, bars=bars
    )
    yield from capped(list(inventory_lines(config, results)), verbosity)
    yield from uncompared_lines(config, results)
    if explained and verbosity >= 0:
        yield from why_lines(explained, verbosity)


def _pages(config: pytest.Config, run: RunDirectory, explained: list[Explanation]) -> str:
    """Write the pages of a run and return a line that says where, or why there are none."""
    try:  # the import is inside, because the run is complete without pages
        from pytest_schedprof.pages.writing import write_pages

        beside, known = config.stash.get(COMPARED_RUN, None), backends_of(config).facts
        path = write_pages(run.path, beside=beside, known=known, explained=explained)
        return f"page of the run: {_short(path)}"
    except Exception as error:
        return f"no page of the run: {str(as_own(error)).removeprefix('schedprof: ')}"


def _summary(
    config: pytest.Config,
    run: RunDirectory,
    found: list[StoredResult],
    explained: list[Explanation],
) -> str:
    """Write the summary; return what went wrong with it, if anything."""
    results = [each.result for each in found]
    unmatched = list(inventory_lines(config, results))
    text = run_markdown(results, _short(run.path), unmatched, explained=explained)
    return write_summary(run.path, text)


def _explained(run: RunDirectory, found: list[StoredResult]) -> list[Explanation]:
    """Explain what regressed, by the whole records: those at hand are cut for the terminal."""
    regressed = [each.directory for each in found if each.directory and each.result.has_regressed]
    if not regressed:
        return []
    # Here, because most sessions have nothing to explain.
    from pytest_schedprof.explaining.sides import Pairs, why_regressed

    tests = []
    for directory in regressed[:MOST_EXPLAINED]:
        with suppress(SchedprofError):
            tests.append(read_test(run.path / directory))
    return why_regressed(tests, Pairs(run.path, str(run.root)))


def _short(path: Path) -> str:
    """Return the path, relative to the working directory if that is shorter."""
    return min(str(path), os.path.relpath(path), key=len)
