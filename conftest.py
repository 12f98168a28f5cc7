"""Fixtures of the package's own tests."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import Project, wait_for

from pytest_schedprof.clusters.control import Control
from pytest_schedprof.clusters.local import LocalCluster

if TYPE_CHECKING:
    from browsing import Reader
    from playwright.sync_api import Browser

pytest_plugins = ["pytester"]


def pytest_configure(config: pytest.Config) -> None:
    """Property tests try the same cases on every machine, and as long as these take."""
    if config.pluginmanager.hasplugin("hypothesispytest"):  # those of docker need none
        from hypothesis import settings

        settings.register_profile("fixed", derandomize=True, deadline=None)
        settings.load_profile("fixed")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A user's project with the plugin installed."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)  # the page of our own job
    return Project(pytester)


@pytest.fixture
def apart(project: Project) -> None:
    """Sessions of the project have processes of their own."""
    project.is_apart = True


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


@pytest.fixture
def hardened() -> Iterator[Control]:
    """A line to a scheduler that a test is about to harden."""
    cluster = LocalCluster(0, timeout_s=30)
    with Control(cluster.address) as control:
        yield control
    cluster.close()


@pytest.fixture
def scheduler_without_pyspy(tmp_path: Path) -> Iterator[str]:
    """A scheduler of an environment that has distributed but no py-spy."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (site / "outer.pth").write_text(sysconfig.get_path("purelib"))
    file = tmp_path / "scheduler.json"
    command = [str(python), "-m", "distributed.cli.dask_scheduler", "--no-dashboard", "--port", "0"]
    with subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--scheduler-file", str(file)],
        env={**os.environ, "PATH": "/usr/bin:/bin"},
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_for(lambda: file.exists() and file.read_text().endswith("}"), "the scheduler")
            yield json.loads(file.read_text())["address"]
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of one module: no cluster can be started while it is there."""
    from browsing import launched  # not where the tests of pages are not run

    with launched() as browser:
        yield browser


@pytest.fixture
def reader(browser: Browser) -> Iterator[Reader]:
    """Opens pages, which must ask for nothing but files and must not complain."""
    from browsing import Reader

    reader = Reader(browser)
    yield reader
    reader.close()
    assert reader.faults == []
