"""A session that compares in turns: the interpreter of the other side, and its clusters."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from pytest_schedprof.environments.cache import default_cache
from pytest_schedprof.environments.interpreter import Interpreter, interpreter_for
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.fixtures import SETTINGS

if TYPE_CHECKING:
    from pytest_schedprof.clusters.under_test import SchedulerUnderTest
    from pytest_schedprof.session import ClusterSession
    from pytest_schedprof.settings import Settings

MAKING_S = 900.0
"""What installing the other side's packages may take."""

INTERPRETER: pytest.StashKey[Interpreter] = pytest.StashKey()
SESSIONS: pytest.StashKey[dict[str, ClusterSession]] = pytest.StashKey()
"""The clusters of each side, by its name."""


def prepare_against(config: pytest.Config, wanted: str) -> None:
    """Find or make the interpreter: what cannot be must not wait for the first test.

    Raises:
        SchedprofError: if there is none that can run a scheduler.
    """
    compare = config.stash[SETTINGS].compare
    if compare is not None:
        raise SettingsError(
            f"schedprof: against {wanted!r} and compare {compare!r} are two "
            "things to compare with; give one"
        )
    there = interpreter_for(wanted, default_cache(), MAKING_S)
    config.stash[INTERPRETER] = there
    config.pluginmanager.register(OtherSides(there), "schedprof-against")


class OtherSides:
    """Tells what is compared with, and ends it."""

    def __init__(self, there: Interpreter) -> None:
        self.there = there

    def pytest_report_header(self) -> str:
        there = self.there
        versions = ", ".join(f"{name} {version}" for name, version in there.versions.items())
        return f"schedprof: against {versions} on Python {there.python}: {there.path}"

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """End the clusters of all sides."""
        for session in config.stash.get(SESSIONS, {}).values():
            session.close()


def rivals(
    config: pytest.Config, settings: Settings, cluster: Any, opened: ExitStack
) -> dict[str, SchedulerUnderTest]:
    """The schedulers that one test is compared with, open as long as the test runs.

    Raises:
        SettingsError: if the test's own cluster is none of which there can be another.
        ClusterError: if the other side cannot be started, or does not get on with dask here.
    """
    kind = getattr(cluster, "kind", type(cluster).__name__)
    if settings.cluster not in ("local", "simulated") or kind != settings.cluster:
        raise SettingsError(
            f"schedprof: against {settings.against!r} needs a second cluster like the test's, "
            f"which can be local or simulated; this test has {kind!r}"
        )
    return {
        name: opened.enter_context(session.scheduler(session.cluster(settings), settings))
        for name, session in _sessions(config, settings).items()
    }


def _sessions(config: pytest.Config, settings: Settings) -> dict[str, ClusterSession]:
    """As a session has one cluster for all tests, so each side has."""
    from pytest_schedprof.session import ClusterSession
    from pytest_schedprof.sides import AGAINST, NULL

    if SESSIONS not in config.stash:
        config.stash[SESSIONS] = {AGAINST: ClusterSession(str(config.stash[INTERPRETER].path))}
    sessions = config.stash[SESSIONS]
    if settings.null and NULL not in sessions:
        sessions[NULL] = ClusterSession()
    return sessions if settings.null else {AGAINST: sessions[AGAINST]}
