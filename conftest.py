"""Fixtures of the package's own tests."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.append(str(Path(__file__).parent / "tests"))  # for `--pyargs` from another directory
import traced
from distributed import Client
from support import LibraryKeeper, Project

from pytest_schedprof.clusters.fork_server import SERVERS
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control

if TYPE_CHECKING:
    from browsing import Reader
    from playwright.sync_api import Browser

pytest_plugins = ["pytester"]


def pytest_configure(config: pytest.Config) -> None:
    """Make tests run alike on every machine: property tests try the same cases, for any time.

    With `--hypothesis-profile=fuzz`, as `.ci/fuzz` has it, they try many new ones.
    """
    config.pluginmanager.register(traced)
    if config.pluginmanager.hasplugin("hypothesispytest"):  # the docker tests run without it
        from hypothesis import settings

        settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=50)
        settings.register_profile("fuzz", deadline=None, max_examples=300, print_blob=True)
        settings.load_profile(config.getoption("--hypothesis-profile") or "fixed")

    # Each process that a test starts would compile this package anew, and rewrite its assertions.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if hasattr(config.option, "loadscopereorder"):  # pytest-xdist
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with many slow tests first, so that no process is left with one of them alone."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


def pytest_collection_finish() -> None:
    """Leave what all tests share out of collections of garbage, which sessions ask for often."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def fork_servers() -> Iterator[None]:
    """Keep the servers that a user's session would end, for the sessions of other tests."""
    SERVERS.hold()
    yield
    SERVERS.release()


@pytest.fixture
def libraries() -> Iterator[None]:
    """Put back what `pytester`, which is to end before this, removed from the imported modules."""
    yield
    LibraryKeeper.put_back()


@pytest.fixture
def project(libraries: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A user's project with the plugin installed."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)  # the summary of our own CI job
    # A test file that is replaced within a second by one as long would be taken for the same.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return Project(pytester)


@pytest.fixture
def apart(project: Project) -> None:
    """Run the project's sessions in processes of their own."""
    project.is_apart = True


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalProcesses]:
    """A cluster without workers, as backends observe only its scheduler."""
    cluster = LocalProcesses(0, timeout_s=30)
    yield cluster
    cluster.close()


@pytest.fixture
def client(cluster: LocalProcesses) -> Iterator[Client]:
    """A client of `cluster`, or of what a module has under that name."""
    with Client(cluster.address) as client:
        yield client


@pytest.fixture
def control(cluster: LocalProcesses) -> Iterator[Control]:
    """A control line to the scheduler of `cluster`."""
    with Control(cluster.address) as control:
        yield control


@pytest.fixture
def own_cluster() -> Iterator[LocalProcesses]:
    """A cluster of the test alone, which it may break."""
    cluster = LocalProcesses(0, timeout_s=300)
    yield cluster
    cluster.close()


@pytest.fixture
def hardened(own_cluster: LocalProcesses) -> Iterator[Control]:
    """A control line to a scheduler that the test is about to harden or to change."""
    with Control(own_cluster.address) as control:
        yield control


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of one module; no cluster can be started while it runs."""
    from browsing import launched  # needs Playwright, which only these tests use

    with launched() as browser:
        yield browser


@pytest.fixture
def reader(browser: Browser) -> Iterator[Reader]:
    """A reader whose pages must request nothing but files and must not complain."""
    from browsing import Reader

    reader = Reader(browser)
    yield reader
    reader.close()
    assert reader.faults == []
