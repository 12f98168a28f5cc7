"""Baselines of a session: load one, tell which tests are new or gone, save one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pytest_schedprof.comparison.matching import renamed_tests
from pytest_schedprof.errors import BaselineError
from pytest_schedprof.gates.reference import Reference
from pytest_schedprof.model.comparison import Report
from pytest_schedprof.model.environment import IN_PROCESS
from pytest_schedprof.model.result import Result
from pytest_schedprof.plugin.stash import COMPARED_RUN, REFERENCE, backends_of, session_settings
from pytest_schedprof.presentation.amounts import counted
from pytest_schedprof.reports.comparisons import unmatched_lines
from pytest_schedprof.reports.lines import Line
from pytest_schedprof.storage.baselines import kept_run, load, save_run
from pytest_schedprof.storage.run_directory import RunDirectory


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
    from pytest_schedprof.pages.keeping import keep_stacks  # only sessions that save need it

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
