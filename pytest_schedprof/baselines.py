"""What a session does with baselines: it loads one, calls the roll of its tests, and saves one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_schedprof.fixtures import SETTINGS

if TYPE_CHECKING:
    from pytest_schedprof.gates.reference import Reference
    from pytest_schedprof.model.result import Result
    from pytest_schedprof.reports.lines import Line
    from pytest_schedprof.storage.run_directory import RunDirectory

REFERENCE: pytest.StashKey[Reference] = pytest.StashKey()
"""What the session compares its tests with, if with anything."""

COMPARED: pytest.StashKey[Path | None] = pytest.StashKey()
"""The run that this was measured in, where its files are at hand."""


def load_reference(config: pytest.Config, source: str) -> None:
    """Before the first test, for a baseline that is missing must not wait for it.

    Raises:
        BaselineError: names what cannot be read.
    """
    from pytest_schedprof.comparison.policy import Policy
    from pytest_schedprof.gates.reference import Reference
    from pytest_schedprof.storage.baselines import kept_run, load
    from pytest_schedprof.storage.calibration import load_calibrations

    directory = str(config.stash[SETTINGS].dir)
    policy = Policy(calibrations=load_calibrations(directory))
    config.stash[COMPARED] = kept_run(source, directory)
    config.stash[REFERENCE] = Reference(*load(source, directory), policy)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Roll(), "schedprof-roll")


def save_baseline(config: pytest.Config, run: RunDirectory) -> str:
    """The session as a baseline, if it is to be one; a line that says so.

    Raises:
        ArtifactError: if it cannot be written.
    """
    settings = config.stash[SETTINGS]
    if settings.save is None:
        return ""
    from pytest_schedprof.storage.baselines import save_run

    return save_run(settings.save, str(settings.dir), run)


class Roll:
    """Which tests the session knows: of these alone can be said that they are new or gone."""

    def __init__(self) -> None:
        self.called: set[str] = set()
        self.excused: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.called.update(item.nodeid for item in session.items)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self.excused.update(item.nodeid for item in items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self.called.update(ids)

    def vanished(self, known: frozenset[str], config: pytest.Config) -> set[str]:
        """Tests that the baseline has of files which were collected whole, and are not in them."""
        chosen = [config.option.keyword, config.option.markexpr]
        if any(chosen) or any("::" in argument for argument in config.args):
            return set()
        files = {test_id.partition("::")[0] for test_id in self.called | self.excused}
        return {
            test_id
            for test_id in known - self.called - self.excused
            if test_id.partition("::")[0] in files
        }


def roll_lines(config: pytest.Config, results: Sequence[Result]) -> Iterator[Line]:
    """Tests that are new, that vanished, or that have another ID now."""
    roll: Any = config.pluginmanager.get_plugin("schedprof-roll")
    if roll is None:
        return
    from pytest_schedprof.comparison.tests import renamed_tests
    from pytest_schedprof.model.comparison import Report
    from pytest_schedprof.reports.changes import test_lines

    known = config.stash[REFERENCE].test_ids
    vanished = roll.vanished(known, config)
    new = {result.test_id for result in results if result.backends} - known
    renamed = renamed_tests(vanished, new)
    told = {test_id for pair in renamed for test_id in pair}
    new, vanished = ({*side} - told for side in (new, vanished))
    yield from test_lines(
        Report("", "", (), tuple(sorted(new)), tuple(sorted(vanished)), tuple(renamed))
    )
