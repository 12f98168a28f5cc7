"""The plugin's fixtures: shells around what `session` does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.settings import Settings

if TYPE_CHECKING:
    from pytest_schedprof.clusters.contract import Cluster
    from pytest_schedprof.clusters.under_test import SchedulerUnderTest
    from pytest_schedprof.session import ClusterSession

SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
"""On the session's config and, with its markers merged in, on each item."""

STARTED_AT: pytest.StashKey[float] = pytest.StashKey()
"""When the session began, in seconds of the epoch."""

DEFAULT_SCALE = 1000

CLUSTERS: pytest.StashKey[ClusterSession] = pytest.StashKey()
RIVALS: pytest.StashKey[dict[str, SchedulerUnderTest]] = pytest.StashKey()
"""Schedulers that a test is compared with in turns, by the names of their sides."""
SCHEDULER: pytest.StashKey[SchedulerUnderTest] = pytest.StashKey()


@pytest.fixture
def schedprof_cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster to profile: local by default, one for the whole session.

    Override it with a fixture of any scope that returns a dask Cluster, a Client or an address.
    """
    try:
        return clusters_of(request.config).cluster(request.node.stash[SETTINGS])
    except SchedprofError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture
def schedprof_scale(request: pytest.FixtureRequest) -> int:
    """How large the workload is to be: each of the sizes that `scale` lists, or else 1000."""
    scale = request.node.stash[SETTINGS].scale
    return scale[0] if scale else DEFAULT_SCALE


@pytest.fixture
def schedprof_scheduler(
    request: pytest.FixtureRequest, schedprof_cluster: Any
) -> Iterator[SchedulerUnderTest]:
    """The scheduler under test, with `.client`, `.address`, `.pid`, `.workers`, `.measure()`."""
    clusters = clusters_of(request.config)
    try:
        with ExitStack() as opened:
            settings = request.node.stash[SETTINGS]
            scheduler = opened.enter_context(clusters.scheduler(schedprof_cluster, settings))
            if settings.against is not None:
                request.node.stash[RIVALS] = open_rivals(request, schedprof_cluster, opened)
            request.node.stash[SCHEDULER] = scheduler
            yield scheduler
    except SchedprofError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def open_rivals(
    request: pytest.FixtureRequest, cluster: Any, opened: ExitStack
) -> dict[str, SchedulerUnderTest]:
    """Of a session that compares in turns."""
    from pytest_schedprof.against import rivals

    return rivals(request.config, request.node.stash[SETTINGS], cluster, opened)


def clusters_of(config: pytest.Config) -> ClusterSession:
    """The session's clusters; the first use imports distributed."""
    from pytest_schedprof.session import ClusterSession

    if CLUSTERS not in config.stash:
        config.stash[CLUSTERS] = ClusterSession()
    return config.stash[CLUSTERS]
