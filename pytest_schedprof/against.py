"""A session that compares in turns: the interpreter of the other side, and its clusters."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.fixtures import SETTINGS

if TYPE_CHECKING:
    from pytest_schedprof.clusters.under_test import SchedulerUnderTest
    from pytest_schedprof.environments.interpreter import Interpreter
    from pytest_schedprof.session import ClusterSession
    from pytest_schedprof.settings import Settings

MAKING_S = 900.0
"""What installing the other side's packages may take."""

INTERPRETER: pytest.StashKey[Interpreter] = pytest.StashKey()
SESSIONS: pytest.StashKey[dict[str, ClusterSession]] = pytest.StashKey()
"""The clusters of each side, by its name."""


def prepare_against(config: pytest.Config) -> None:
    """Find or make the interpreter: what cannot be must not wait for the first test.

    Raises:
        SchedprofError: if there is none that can run a scheduler.
    """
    settings = config.stash[SETTINGS]
    if settings.against is None or settings.is_off:
        return
    if settings.compare is not None:
        raise SettingsError(
            f"schedprof: against {settings.against!r} and compare {settings.compare!r} are two "
            "things to compare with; give one"
        )
    from pytest_schedprof.environments.cache import default_cache
    from pytest_schedprof.environments.interpreter import interpreter_for

    config.stash[INTERPRETER] = interpreter_for(settings.against, default_cache(), MAKING_S)


def header_of_against(config: pytest.Config) -> list[str]:
    """What the other side is, if there is one."""
    if INTERPRETER not in config.stash:
        return []
    there = config.stash[INTERPRETER]
    versions = ", ".join(f"{name} {version}" for name, version in there.versions.items())
    return [f"schedprof: against {versions} on Python {there.python}: {there.path}"]


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


def close_against(config: pytest.Config) -> None:
    """End the clusters of all other sides."""
    for session in config.stash.get(SESSIONS, {}).values():
        session.close()
