"""What becomes of a session's results at its end: records, pages, a summary, a baseline, lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_schedprof.errors import as_own
from pytest_schedprof.fixtures import SETTINGS, STARTED_AT

if TYPE_CHECKING:
    from pytest_schedprof.model.result import Result
    from pytest_schedprof.model.run import StoredResult
    from pytest_schedprof.reports.lines import Line
    from pytest_schedprof.storage.run_directory import RunDirectory

RUN: pytest.StashKey[RunDirectory] = pytest.StashKey()


def run_of(config: pytest.Config) -> RunDirectory:
    """Of the session, which pytest-xdist's workers are a part of."""
    if RUN not in config.stash:
        from pytest_schedprof.storage.run_directory import RunDirectory, new_run_id

        given = getattr(config, "workerinput", {}).get("schedprof_run")
        config.stash[RUN] = RunDirectory(config.stash[SETTINGS].dir, given or new_run_id())
    return config.stash[RUN]


def collect(config: pytest.Config, packed: dict[str, Any]) -> None:
    """Keep what was found of a test until the session ends."""
    collector: Any = config.pluginmanager.get_plugin("schedprof-collector")
    if collector is None:
        collector = Collector(config)
        config.pluginmanager.register(collector, "schedprof-collector")
    collector.packed.append(packed)


class Collector:
    """Brings together what the session's tests, or its pytest-xdist workers, found."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.packed: list[dict[str, Any]] = []
        self.trouble: str | None = None
        self.told: list[str] = []
        """What else there is to say, in a line each."""

    def results(self) -> list[StoredResult]:
        # No property: older releases of pluggy look at each attribute of what is registered.
        from pytest_schedprof.reports.summary import unpack

        return [unpack(packed) for packed in self.packed]

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        try:
            self._keep(int(exitstatus))
        except Exception as error:
            self.trouble = str(as_own(error))
            # Who asked for a baseline must not believe that there is one.
            if not exitstatus and self.config.stash[SETTINGS].save:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _keep(self, exitstatus: int) -> None:
        from pytest_schedprof.baselines import COMPARED, save_baseline
        from pytest_schedprof.storage.records import write_run

        run, stored = run_of(self.config), self.results()
        started_at = self.config.stash[STARTED_AT]
        write_run(run, started_at, exitstatus, stored, self.config.rootpath)
        results = [each.result for each in stored]
        self.told.append(_summary(self.config, run, results))
        self.told.append(save_baseline(self.config, run))
        self.told.append(_pages(run, self.config.stash.get(COMPARED, None)))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("schedprof")
        results = [stored.result for stored in self.results()]
        for line in _lines(self.config, terminalreporter, results):
            terminalreporter.write_line(line.text, **line.markup)
        for text in filter(None, self.told):
            terminalreporter.write_line(text)
        if self.trouble:
            terminalreporter.write_line(self.trouble, red=True)


def _lines(
    config: pytest.Config, terminalreporter: pytest.TerminalReporter, results: list[Result]
) -> Iterator[Line]:
    """The table of the session's tests, and which came or went."""
    from pytest_schedprof.analysis.recent import recent_series
    from pytest_schedprof.baselines import roll_lines
    from pytest_schedprof.reports.sparkline import WIDEST, bars_for
    from pytest_schedprof.reports.terminal import summary_lines
    from pytest_schedprof.storage.runs import last_records

    run = run_of(config)
    try:
        recent = recent_series(last_records(run.root, WIDEST))
    except OSError:  # what others left there is no reason to say nothing of this session
        recent = {}
    bars = bars_for(getattr(terminalreporter._tw._file, "encoding", None))
    verbosity = config.get_verbosity()
    yield from summary_lines(
        results, _short(run.path), verbosity=verbosity, recent=recent, bars=bars
    )
    yield from roll_lines(config, results)


def _pages(run: RunDirectory, beside: Path | None) -> str:
    """Make the pages of a run; what hinders is told, for the run itself is there without them."""
    try:
        from pytest_schedprof.pages.writing import write_pages

        return f"page of the run: {_short(write_pages(run.path, beside=beside))}"
    except Exception as error:
        return f"no page of the run: {str(as_own(error)).removeprefix('schedprof: ')}"
    except KeyboardInterrupt:
        return "no page of the run: interrupted; `schedprof report` makes it"


def _summary(config: pytest.Config, run: RunDirectory, results: list[Result]) -> str:
    """Write it; what hinders is told."""
    from pytest_schedprof.baselines import roll_lines
    from pytest_schedprof.reports.run_summary import run_markdown
    from pytest_schedprof.storage.summary import write_summary

    text = run_markdown(results, _short(run.path), list(roll_lines(config, results)))
    return write_summary(run.path, text)


def _short(path: Path) -> str:
    """Relative to the working directory where that is shorter."""
    return min(str(path), os.path.relpath(path), key=len)
