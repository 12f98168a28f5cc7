"""The plugin's fixtures, around the clusters of the session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from pytest_schedprof import plugin
from pytest_schedprof.plugin.stash import (
    OTHER_SCHEDULERS,
    SCHEDULER,
    cluster_request_of,
    clusters_of,
    item_settings,
)

if TYPE_CHECKING:
    from pytest_schedprof.clusters.contract import Cluster
    from pytest_schedprof.clusters.under_test import SchedulerUnderTest


DEFAULT_SCALE = 1000
"""Size of the workload of a test without `scale`."""


@pytest.fixture
def schedprof_cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster to profile: local by default, one for the whole session.

    Override it with a fixture of any scope that returns a dask Cluster, a Client or an address.
    """
    try:
        return clusters_of(request.config).cluster(cluster_request_of(request.node))
    except plugin.errors.SchedprofError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture
def schedprof_scale(request: pytest.FixtureRequest) -> int:
    """The size of the workload: each of those that `scale` lists in turn, or else 1000."""
    scale = item_settings(request.node).scale
    return scale[0] if scale else DEFAULT_SCALE


@pytest.fixture
def schedprof_seed(request: pytest.FixtureRequest) -> int:
    """The seed of the cluster: each of those that `seeds` asks for in turn, or else 0."""
    return int(plugin.running.seed_of(item_settings(request.node)))


@pytest.fixture
def schedprof_scheduler(
    request: pytest.FixtureRequest, schedprof_cluster: Any
) -> Iterator[SchedulerUnderTest]:
    """The scheduler under test, with `.client`, `.address`, `.pid`, `.workers`, `.measure()`."""
    clusters = clusters_of(request.config)
    try:
        with ExitStack() as opened:
            settings = item_settings(request.node)
            scheduler = opened.enter_context(
                clusters.scheduler(schedprof_cluster, cluster_request_of(request.node))
            )
            if settings.against is not None:
                request.node.stash[OTHER_SCHEDULERS] = plugin.against.other_schedulers(
                    request.node, settings, schedprof_cluster, opened
                )
            request.node.stash[SCHEDULER] = scheduler
            try:
                yield scheduler
            finally:  # pytest keeps items until the session ends, but this client is closed
                del request.node.stash[SCHEDULER]
                if OTHER_SCHEDULERS in request.node.stash:
                    del request.node.stash[OTHER_SCHEDULERS]
    except plugin.errors.SchedprofError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
