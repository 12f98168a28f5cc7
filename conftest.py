"""Fixtures of the package's own tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import Project

from pytest_schedprof.clusters.control import Control
from pytest_schedprof.clusters.local import LocalCluster

pytest_plugins = ["pytester"]


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A user's project with the plugin installed."""
    return Project(pytester)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A scheduler without workers: what a backend observes is the scheduler."""
    cluster = LocalCluster(0, timeout_s=30)
    yield cluster
    cluster.close()


@pytest.fixture
def control(cluster: LocalCluster) -> Iterator[Control]:
    """A line to that scheduler."""
    with Control(cluster.address) as control:
        yield control
