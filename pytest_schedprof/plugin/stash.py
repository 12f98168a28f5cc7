"""What the plugin keeps on a session's config or on an item: one key each.

What a session may not need at all is made by a function at the end of this file, at first use.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from pytest_schedprof.backends.registry import BackendRegistry
    from pytest_schedprof.clusters.contract import ClusterRequest
    from pytest_schedprof.clusters.environments import Interpreter
    from pytest_schedprof.clusters.session import ClusterSession
    from pytest_schedprof.clusters.under_test import SchedulerUnderTest
    from pytest_schedprof.errors import IncompatibleError
    from pytest_schedprof.evidence.contract import EvidenceRegistry
    from pytest_schedprof.judge.reference import Reference
    from pytest_schedprof.measuring.plan import Plan
    from pytest_schedprof.measuring.profiling import ProfiledTest
    from pytest_schedprof.measuring.settings import Settings
    from pytest_schedprof.plugin.against import OtherSettings
    from pytest_schedprof.store.run_directory import RunDirectory

T = TypeVar("T")

# On the config and, with the markers merged in, on items.

SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
"""On the config once they are needed, see `session_settings`; on an item only if its own may differ
from those."""

# On the config.

STARTED_AT: pytest.StashKey[float] = pytest.StashKey()
"""When the session began, in seconds since the epoch. pytest-xdist workers get it from their
controller."""

REGISTRY: pytest.StashKey[BackendRegistry] = pytest.StashKey()

KINDS: pytest.StashKey[EvidenceRegistry] = pytest.StashKey()
"""Kinds of evidence, with those that the hook adds."""

CLUSTERS: pytest.StashKey[ClusterSession] = pytest.StashKey()

INTERPRETER: pytest.StashKey[Interpreter] = pytest.StashKey()
"""The interpreter that runs the scheduler of `--schedprof-against`."""

OTHER_SETTINGS: pytest.StashKey[OtherSettings] = pytest.StashKey()
"""The settings of the other side of `--schedprof-against`, if it has others and the same code."""

AGAINST_WHAT: pytest.StashKey[str] = pytest.StashKey()
"""What the other side is, for the header."""

NOT_CALM: pytest.StashKey[str] = pytest.StashKey()
"""Why tests that make their own clusters do not run in virtual time, although they were to."""

STORIES: pytest.StashKey[dict[object, str]] = pytest.StashKey()
"""Places at which tests failed under a seed, each with the first such test, which says why."""

OTHER_CLUSTERS: pytest.StashKey[ClusterSession] = pytest.StashKey()
"""The clusters of the other side of `--schedprof-against`."""

INCOMPATIBLE: pytest.StashKey[IncompatibleError] = pytest.StashKey()
"""Why the client of this session cannot use the other side's scheduler, once that is known."""

REFERENCE: pytest.StashKey[Reference] = pytest.StashKey()
"""The baseline of `--schedprof-compare`."""

COMPARED_RUN: pytest.StashKey[Path | None] = pytest.StashKey()
"""Directory of the run that the baseline was saved from, if it still exists."""

RUN: pytest.StashKey[RunDirectory] = pytest.StashKey()

HAS_BEGUN: pytest.StashKey[bool] = pytest.StashKey()
"""Whether run.json exists, in a process that runs profiled tests."""

# On an item.

PLAN: pytest.StashKey[Plan] = pytest.StashKey()

SCHEDULER: pytest.StashKey[SchedulerUnderTest] = pytest.StashKey()

OTHER_SCHEDULER: pytest.StashKey[SchedulerUnderTest] = pytest.StashKey()
"""The scheduler that the test runs on in turns with its own."""

PROFILED: pytest.StashKey[ProfiledTest] = pytest.StashKey()

TMP_FILES: pytest.StashKey[frozenset[Path]] = pytest.StashKey()
"""What fixtures put into `tmp_path`, which is all that each run of the body must find there."""

HAS_FAILED_SUBTEST: pytest.StashKey[bool] = pytest.StashKey()
"""Whether a subtest of the body that is running has failed."""


def why_not_calm(config: pytest.Config) -> str:
    """Say why tests that make their own clusters were not in virtual time; empty if they were."""
    reason = config.stash.get(NOT_CALM, "")
    return reason and f"not in virtual time: tests that make their own clusters: {reason}"


def session_settings(config: pytest.Config) -> Settings:
    """Return the session's settings, which are read at first use.

    Raises:
        SettingsError: for a wrong value.
    """
    if SETTINGS not in config.stash:
        from pytest_schedprof.measuring.settings import read_session

        config.stash[SETTINGS] = read_session(config)
    return config.stash[SETTINGS]


def item_settings(item: pytest.Item) -> Settings:
    """Return the settings of a test: its own since its setup, or else those of the session."""
    return item.stash[SETTINGS] if SETTINGS in item.stash else session_settings(item.config)


def backends_of(config: pytest.Config) -> BackendRegistry:
    """Return the session's backends: built-in ones and those of the hook."""
    if REGISTRY not in config.stash:
        from pytest_schedprof.backends.registry import BackendRegistry

        config.stash[REGISTRY] = _of_hook(config, "pytest_schedprof_backends", BackendRegistry)
    return config.stash[REGISTRY]


def kinds_of(config: pytest.Config) -> EvidenceRegistry:
    """Return the session's kinds of evidence: built-in ones and those of the hook."""
    if KINDS not in config.stash:
        from pytest_schedprof.evidence.contract import EvidenceRegistry

        config.stash[KINDS] = _of_hook(config, "pytest_schedprof_evidence", EvidenceRegistry)
    return config.stash[KINDS]


def _of_hook(config: pytest.Config, name: str, registry: Callable[[Any], T]) -> T:
    """Return the registry with what a hook returns, which is a user's code.

    Raises:
        SettingsError: if it fails, or returns what cannot be used.
    """
    from pytest_schedprof.errors import SettingsError

    try:
        return registry(getattr(config.hook, name)())
    except SettingsError:
        raise
    except Exception as error:
        raise SettingsError(f"schedprof: the hook {name} failed: {error!r}") from error


def run_of(config: pytest.Config) -> RunDirectory:
    """Return the session's directory, which pytest-xdist workers share with their controller."""
    if RUN not in config.stash:
        from pytest_schedprof.store.run_directory import RunDirectory, new_run_id

        run_id = getattr(config, "workerinput", {}).get("schedprof_run") or new_run_id()
        config.stash[RUN] = RunDirectory(session_settings(config).dir, run_id)
    return config.stash[RUN]


def cluster_request_of(item: pytest.Item) -> ClusterRequest:
    """Return the cluster that a test asks for, started as its backends need it."""
    from msgspec.structs import replace

    request = item_settings(item).cluster_request
    plan = item.stash.get(PLAN, None)
    return replace(request, launcher=plan.launcher) if plan else request


def clusters_of(config: pytest.Config) -> ClusterSession:
    """Return the session's clusters; the first use imports distributed."""
    if CLUSTERS not in config.stash:
        from pytest_schedprof.clusters.session import ClusterSession

        config.stash[CLUSTERS] = ClusterSession()
    return config.stash[CLUSTERS]
