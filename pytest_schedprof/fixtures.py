"""The plugin's fixtures: shells around what `session` does."""

from __future__ import annotations

from collections.abc import Iterator
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

DEFAULT_SCALE = 1000

CLUSTERS: pytest.StashKey[ClusterSession] = pytest.StashKey()
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
        with clusters.scheduler(schedprof_cluster, request.node.stash[SETTINGS]) as scheduler:
            request.node.stash[SCHEDULER] = scheduler
            yield scheduler
    except SchedprofError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def clusters_of(config: pytest.Config) -> ClusterSession:
    """The session's clusters; the first use imports distributed."""
    from pytest_schedprof.session import ClusterSession

    if CLUSTERS not in config.stash:
        config.stash[CLUSTERS] = ClusterSession()
    return config.stash[CLUSTERS]
