"""Containers of pytest-docker-compose, and a skip where there is no Docker engine."""

from __future__ import annotations

import os

import pytest
from containers import build, engine_problem, wait_until_healthy
from pytest_docker_compose import ContainerGetter, plugin
from support import Project

# The plugin object has its fixtures as instance attributes, where pytest since 8.3 does not
# look for them.
session_scoped_container_getter = plugin.session_scoped_container_getter


@pytest.fixture(scope="session", autouse=True)
def engine() -> None:
    """Build the image; without a Docker engine skip the tests, or fail where CI requires one."""
    if problem := engine_problem():
        refuse = pytest.fail if os.environ.get("SCHEDPROF_DOCKER") == "required" else pytest.skip
        refuse(f"no Docker engine: {problem}")
    build()


@pytest.fixture
def project(project: Project) -> Project:
    """A project whose sessions run without pytest-docker-compose and its warnings."""
    project.is_apart = True
    return project


@pytest.fixture(scope="session")
def address(session_scoped_container_getter: ContainerGetter) -> str:
    """Address of the scheduler in docker/docker-compose.yml, which has two workers."""
    containers = session_scoped_container_getter.docker_project.containers()
    wait_until_healthy([container.id for container in containers])
    (port,) = session_scoped_container_getter.get("scheduler").network_info
    return f"tcp://{port.hostname}:{port.host_port}"
