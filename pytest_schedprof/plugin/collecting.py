"""The end of a session: its records, pages, summary and baseline, and its lines on the terminal.

Imported with the first profiled test, or with the first result of one.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_schedprof.errors import (
    BaselineError,
    SchedprofError,
    as_own,
    printable,
    without_secrets,
)
from pytest_schedprof.judge.acceptance import FILE, accepted_in, unused
from pytest_schedprof.judge.explanation import Pairs, why_regressed
from pytest_schedprof.judge.matching import renamed_tests
from pytest_schedprof.judge.recordings import keep_stacks
from pytest_schedprof.judge.reference import Reference
from pytest_schedprof.judge.series import figures_of
from pytest_schedprof.measuring.pages import write_pages
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
    why_not_calm,
)
from pytest_schedprof.report.changes import unmatched_tests
from pytest_schedprof.report.comparisons import why_lines
from pytest_schedprof.report.junit import unpack
from pytest_schedprof.report.markup import Line, capped
from pytest_schedprof.report.summary import run_markdown
from pytest_schedprof.report.terminal import summary_lines, unprofiled_lines
from pytest_schedprof.report.words import counted
from pytest_schedprof.store.baselines import check_place, kept_run, load, save_run
from pytest_schedprof.store.records import begin_run, write_run
from pytest_schedprof.store.run_directory import write_summary
from pytest_schedprof.store.runs import read_test, removable, remove, unreported


def load_reference(config: pytest.Config, source: str) -> None:
    """Load the baseline before the first test, so that a missing one is told at once.

    Raises:
        BaselineError: if it cannot be read; names the file.
    """
    directory = str(session_settings(config).dir)
    run = config.stash[COMPARED_RUN] = kept_run(source, directory)
    loaded = load(source, directory)
    config.stash[REFERENCE] = Reference(
        loaded.name,
        loaded.results,
        run=run,
        earlier=loaded.earlier,
        commit=loaded.commit,
        accepted=accepted_in(config.invocation_params.dir),
    )
    config.pluginmanager.register(TestInventory(), "schedprof-inventory")


UNCHECKED = (
    "--schedprof-check: nothing was checked, for no test that makes its own cluster ran in virtual "
    "time"
)


class TestInventory:
    """The tests that the session collected, to tell which tests are new and which are gone."""

    def __init__(self) -> None:
        self.collected: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: Sequence[pytest.Item]
    ) -> Iterator[None]:
        """Note all tests before plugins take some away; a worker of pytest-xdist reports them."""
        self.collected.update(item.nodeid for item in items)
        getattr(config, "workeroutput", {})["schedprof_collected"] = sorted(self.collected)
        yield

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        reported: dict[str, Any] = getattr(node, "workeroutput", {})
        self.collected.update(reported.get("schedprof_collected", ()))

    def vanished(self, known: frozenset[str], config: pytest.Config) -> set[str]:
        """Return tests of the baseline that are gone from files which were collected whole."""
        # Who chooses tests does not miss the others; with --lf files are collected in part.
        choices = ("keyword", "markexpr", "lf", "deselect")
        chosen = [getattr(config.option, name, None) for name in choices]
        if any(chosen) or any("::" in argument for argument in config.args):
            return set()
        files = {test_id.partition("::")[0] for test_id in self.collected}
        missing = known - self.collected
        return {test_id for test_id in missing if test_id.partition("::")[0] in files}


def unmatched_in(config: pytest.Config, results: Sequence[Result]) -> Iterator[str]:
    """Yield what is said of tests that are new, that vanished, or that have another ID now."""
    inventory: Any = config.pluginmanager.get_plugin("schedprof-inventory")
    if inventory is None:
        return
    known = config.stash[REFERENCE].test_ids
    vanished = inventory.vanished(known, config)
    new = {result.test_id for result in results if result.backends} - known
    renamed = renamed_tests(vanished, new)
    paired = {test_id for pair in renamed for test_id in pair}
    new, vanished = ({*side} - paired for side in (new, vanished))
    yield from unmatched_tests(
        Report("", "", (), tuple(sorted(new)), tuple(sorted(vanished)), tuple(renamed))
    )


MOST_EXPLAINED = 50
"""Tests of which is said why they regressed: the files of both sides take time to read."""

__all__ = ["Collector", "begin_run", "check_place", "collector_of"]


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
        self.packed: list[tuple[str, bytes]] = []
        """Results of tests by their IDs, of which the last attempt counts."""
        self._first = b""
        """Text of the first result: what others have of it is not kept again."""
        self.repeated: list[bytes] = []
        """Those of attempts that were repeated, as by pytest-rerunfailures."""
        self.unprofiled: dict[str, str] = {}
        """Tests whose marker is not their own, and that ran no scheduler."""
        self.unreported: list[StoredResult] = []
        """Stored results that no report has brought: of interrupted or killed workers."""
        self.explained: list[Explanation] = []
        """Why tests regressed; found before this session saves a baseline over the one of then."""
        self.troubles: list[str] = []
        self.notes: list[str] = []
        """Further lines for the terminal: the page, the baseline, what went wrong with them."""

    def keep(self, test_id: str, packed: str, *, is_repeated: bool = False) -> None:
        """Keep a result until the end of the session: there may be thousands, which are alike."""
        content = packed.encode()
        self._first = self._first or content
        compressor = zlib.compressobj(zdict=self._first)
        compressed = compressor.compress(content) + compressor.flush()
        if is_repeated:
            self.repeated.append(compressed)
        else:
            self.packed.append((test_id, compressed))

    def repeat(self, test_id: str) -> None:
        """Take the last result of a test, if it has one, for that of a repeated attempt."""
        for place in reversed(range(len(self.packed))):
            if self.packed[place][0] == test_id:
                self.repeated.append(self.packed.pop(place)[1])
                return

    def _ended(self) -> Iterator[StoredResult]:
        return (self._unpacked(compressed) for _, compressed in self.packed)

    def _unpacked(self, compressed: bytes) -> StoredResult:
        return unpack(zlib.decompressobj(zdict=self._first).decompress(compressed).decode())

    def results(self) -> list[StoredResult]:
        # Not a property: older releases of pluggy read every attribute of a registered plugin.
        return [*self._ended(), *self.unreported]

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
            self._try(self._remove_old_runs)
        except KeyboardInterrupt:
            self.notes.append("interrupted: `schedprof open --write` makes the pages of the run")
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
            self.notes.append(step(*arguments) or "")
        except Exception as error:
            self.troubles.append(str(as_own(error)))
            return False
        return True

    def _write_run(self, status: int) -> None:
        run = run_of(self.config)
        if not self.packed and not run.path.is_dir():
            return  # no profiled test has begun
        ended = [*self._ended()]
        reported = [test.directory for test in (*ended, *map(self._unpacked, self.repeated))]
        tests = {test.result.test_id for test in ended}  # of which another attempt may have crashed
        self.unreported = [
            StoredResult(str(path), result, figures_of(result))
            for path, result in unreported(run.path, reported)
            if result.test_id not in tests
        ]
        started_at = self.config.stash[STARTED_AT]
        stored = self.results()
        unmatched = unmatched_in(self.config, [test.result for test in stored])
        write_run(run, started_at, status, stored, self.config.rootpath, unmatched)

    def _write_summary(self) -> str:
        """Write the summary; return what went wrong with it, if anything."""
        stored, run = self.results(), run_of(self.config)
        if not stored:
            return ""
        # By the whole records: those at hand are cut for the terminal.
        regressed = [
            test.directory for test in stored if test.directory and test.result.has_regressed
        ]
        tests = []
        for directory in regressed[:MOST_EXPLAINED]:
            with suppress(SchedprofError):
                tests.append(read_test(run.path / directory))
        self.explained = why_regressed(tests, Pairs(run.path, str(run.root))) if tests else []
        results = [test.result for test in stored]
        unmatched = list(unmatched_in(self.config, results))
        text = run_markdown(results, _short(run.path), unmatched, explained=self.explained)
        return write_summary(run.path, text)

    def _save(self) -> str:
        """Save the session as a baseline if it was asked for; return a line that says so."""
        settings, run = session_settings(self.config), run_of(self.config)
        if settings.save is None:
            return ""
        if not self.results():
            name = without_secrets(settings.save)
            raise BaselineError(f"schedprof: baseline {name!r} was not saved: no profiled test ran")
        line = save_run(settings.save, str(settings.dir), run)
        keep_stacks(run.path, settings.save, str(settings.dir), backends_of(self.config).facts)
        return line

    def _remove_old_runs(self) -> None:
        """Remove runs before the newest ones, but none that something needs."""
        for run in removable(run_of(self.config).root, 1 + session_settings(self.config).runs):
            remove(run)

    def _check_comparison(self) -> None:
        """Refuse a session that was to be compared, but measured nothing."""
        name = session_settings(self.config).compare
        if name is not None and not any(test.result.is_usable for test in self.results()):
            raise BaselineError(
                f"schedprof: nothing was compared with {without_secrets(name)!r}: no profiled test "
                "ran to its end"
            )

    def _write_pages(self) -> str:
        """Write the pages; return a line that says where, or why there are none."""
        if not self.results():
            return ""
        run, beside = run_of(self.config), self.config.stash.get(COMPARED_RUN, None)
        known = backends_of(self.config).facts
        try:
            path = write_pages(run.path, beside=beside, known=known, explained=self.explained)
        except Exception as error:  # the run is complete without pages
            return f"no page of the run: {str(as_own(error)).removeprefix('schedprof: ')}"
        return f"page of the run: {_short(path)}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        results = [stored.result for stored in self.results()]
        is_any = bool(results or any(self.notes) or self.troubles)
        if not (is_any or self.unprofiled):
            return  # interrupted before the first test ended
        lines = [*self._lines(results)] if is_any else []
        verbosity = self.config.get_verbosity()
        lines += unprofiled_lines(self.unprofiled, verbosity)
        notes = [printable(text) for text in self.notes if text]
        if reason := why_not_calm(self.config):
            notes.append(reason)
        is_checked = any(result.is_own_virtual for result in results)
        if session_settings(self.config).check and not is_checked:
            notes.append(UNCHECKED)
        if verbosity < 0:  # a title takes more room than they do
            for text in (*(line.text for line in lines), *notes):
                terminalreporter.write_line(f"schedprof: {text.strip()}")
        else:
            terminalreporter.section("schedprof")
            for line in lines:
                terminalreporter.write_line(line.text, **line.markup)
            for text in notes:
                terminalreporter.write_line(text)
        for text in self.troubles:
            terminalreporter.write_line(printable(text), red=True)

    def _lines(self, results: list[Result]) -> Iterator[Line]:
        """Yield the table of the session's tests, and lines about tests that are new or gone."""
        config, run = self.config, run_of(self.config)
        verbosity = config.get_verbosity()
        yield from summary_lines(results, _short(run.path), verbosity=verbosity)
        unmatched = [Line(text) for text in unmatched_in(config, results)]
        yield from capped(unmatched, verbosity)
        yield from map(Line, self._unused(results))
        in_process = [result for result in results if result.cluster.kind == IN_PROCESS]
        if in_process and session_settings(config).against is not None:
            yield Line(
                f"not compared: {counted(len(in_process), 'test')} without the fixture "
                "schedprof_scheduler, whose scheduler is in the test's own process: compare two "
                "sessions (--schedprof-save, --schedprof-compare)"
            )
        if self.explained and verbosity >= 0:
            yield from why_lines(self.explained, verbosity)

    def _unused(self, results: list[Result]) -> Iterator[str]:
        """Yield a line if something that was accepted is no longer needed."""
        reference = self.config.stash.get(REFERENCE, None)
        comparisons = [comparison for result in results for comparison in result.comparisons]
        if reference and (left := unused(reference.accepted, comparisons)):
            yield (
                f"{counted(len(left), 'accepted figure')} of {FILE} no longer applied: "
                "`schedprof accept --prune` removes what does not"
            )


def _short(path: Path) -> str:
    """Return the path, relative to the working directory if that is shorter."""
    return min(str(path), os.path.relpath(path), key=len)
