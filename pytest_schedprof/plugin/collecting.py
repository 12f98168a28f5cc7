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

from pytest_schedprof.errors import BaselineError, SchedprofError, as_own, printable
from pytest_schedprof.judge.matching import renamed_tests
from pytest_schedprof.judge.reference import Reference
from pytest_schedprof.judge.series import figures_of, recent_series
from pytest_schedprof.model.comparison import Report
from pytest_schedprof.model.explanation import Explanation
from pytest_schedprof.model.result import IN_PROCESS, Result
from pytest_schedprof.model.run import StoredResult
from pytest_schedprof.plugin.stash import (
    COMPARED_RUN,
    REFERENCE,
    STARTED_AT,
    backends_of,
    run_of,
    session_settings,
)
from pytest_schedprof.report.comparisons import unmatched_lines, why_lines
from pytest_schedprof.report.junit import unpack
from pytest_schedprof.report.markup import WIDEST, Line, bars_for, capped
from pytest_schedprof.report.summary import run_markdown
from pytest_schedprof.report.terminal import summary_lines, unprofiled_lines
from pytest_schedprof.report.words import counted
from pytest_schedprof.store.baselines import kept_run, load, save_run
from pytest_schedprof.store.records import begin_run, write_run
from pytest_schedprof.store.run_directory import RunDirectory, write_summary
from pytest_schedprof.store.runs import last_records, read_test, unreported


def load_reference(config: pytest.Config, source: str) -> None:
    """Load the baseline before the first test, so that a missing one is told at once.

    Raises:
        BaselineError: if it cannot be read; names the file.
    """
    directory = str(session_settings(config).dir)
    config.stash[COMPARED_RUN] = kept_run(source, directory)
    run = config.stash[COMPARED_RUN]
    name, results, earlier = load(source, directory)
    config.stash[REFERENCE] = Reference(name, results, run=run, earlier=earlier)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(TestInventory(), "schedprof-inventory")


def save_baseline(config: pytest.Config, run: RunDirectory, has_results: bool) -> str:
    """Save the session as a baseline if it was asked for; return a line that says so.

    Raises:
        ArtifactError: if it cannot be written.
        BaselineError: if there is nothing to save.
    """
    settings = session_settings(config)
    if settings.save is None:
        return ""
    if not has_results:
        raise BaselineError(
            f"schedprof: baseline {settings.save!r} was not saved: no profiled test ran"
        )
    line = save_run(settings.save, str(settings.dir), run)
    from pytest_schedprof.judge.others import keep_stacks  # only sessions that save need it

    keep_stacks(run.path, settings.save, str(settings.dir), backends_of(config).facts)
    return line


def check_comparison(config: pytest.Config, results: Sequence[Result]) -> None:
    """Refuse a session that was to be compared, but measured nothing.

    Raises:
        BaselineError: if no test ran profiled to its end.
    """
    name = session_settings(config).compare
    if name is not None and not any(each.is_usable for each in results):
        raise BaselineError(
            f"schedprof: nothing was compared with {name!r}: no profiled test ran to its end"
        )


class TestInventory:
    """The tests that the session collected, to tell which tests are new and which are gone."""

    def __init__(self) -> None:
        self.collected: set[str] = set()
        self.deselected: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected.update(item.nodeid for item in session.items)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self.deselected.update(item.nodeid for item in items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self.collected.update(ids)

    def vanished(self, known: frozenset[str], config: pytest.Config) -> set[str]:
        """Return tests of the baseline that are gone from files which were collected whole."""
        chosen = [config.option.keyword, config.option.markexpr]
        if any(chosen) or any("::" in argument for argument in config.args):
            return set()
        files = {test_id.partition("::")[0] for test_id in self.collected | self.deselected}
        return {
            test_id
            for test_id in known - self.collected - self.deselected
            if test_id.partition("::")[0] in files
        }


def uncompared_lines(config: pytest.Config, results: Sequence[Result]) -> Iterator[Line]:
    """Yield a line about tests that cannot run on a second scheduler, if there are any."""
    if session_settings(config).against is None:
        return
    clusters = [result.cluster for result in results]
    if count := sum(each is not None and each.kind == IN_PROCESS for each in clusters):
        yield Line(
            f"not compared: {counted(count, 'test')} without the fixture schedprof_scheduler, "
            "whose scheduler is in the test's own process: compare two sessions "
            "(--schedprof-save, --schedprof-compare)"
        )


def inventory_lines(config: pytest.Config, results: Sequence[Result]) -> Iterator[Line]:
    """Yield lines about tests that are new, that vanished, or that have another ID now."""
    inventory: Any = config.pluginmanager.get_plugin("schedprof-inventory")
    if inventory is None:
        return
    known = config.stash[REFERENCE].test_ids
    vanished = inventory.vanished(known, config)
    new = {result.test_id for result in results if result.backends} - known
    renamed = renamed_tests(vanished, new)
    told = {test_id for pair in renamed for test_id in pair}
    new, vanished = ({*side} - told for side in (new, vanished))
    yield from unmatched_lines(
        Report("", "", (), tuple(sorted(new)), tuple(sorted(vanished)), tuple(renamed))
    )


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
        from pytest_schedprof.measuring.pages import write_pages

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
    from pytest_schedprof.judge.explanation import Pairs, why_regressed

    tests = []
    for directory in regressed[:MOST_EXPLAINED]:
        with suppress(SchedprofError):
            tests.append(read_test(run.path / directory))
    return why_regressed(tests, Pairs(run.path, str(run.root)))


def _short(path: Path) -> str:
    """Return the path, relative to the working directory if that is shorter."""
    return min(str(path), os.path.relpath(path), key=len)
