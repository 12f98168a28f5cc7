"""Real schedulers for the contract of the backends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_schedprof.clusters.control import Control
from pytest_schedprof.clusters.local import LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A scheduler without workers: what a backend observes is the scheduler."""
    cluster = LocalCluster(0, timeout_s=30)
    yield cluster
    cluster.close()


@pytest.fixture
def control(cluster: LocalCluster) -> Iterator[Control]:
    with Control(cluster.address) as control:
        yield control
