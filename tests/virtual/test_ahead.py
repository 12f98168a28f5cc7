"""Tests of clusters that start while the test before theirs still runs."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest
from support import Project, descendants, wait_for

from pytest_schedprof.clusters.contract import Cluster, ClusterRequest
from pytest_schedprof.clusters.session import ClusterSession
from pytest_schedprof.errors import ClusterError

REQUEST = ClusterRequest("virtual", 4, 1, (), 60.0)

TESTS = """
from support import descendants

BEFORE = descendants()

@pytest.mark.schedprof
@pytest.mark.parametrize("number", range(3))
def test_it(schedprof_scheduler, number):
    wait(schedprof_scheduler.client.map(inc, range(50), pure=False))
    with open("clusters", "a") as file:
        print(len(descendants() - BEFORE), file=file)
"""

VIRTUAL = ("--schedprof-cluster=virtual", "--schedprof-workers=8")


@pytest.fixture
def session() -> Iterator[ClusterSession]:
    session = ClusterSession()
    yield session
    session.close()


def children() -> set[int]:
    return {each.pid for each in descendants()}


def begun(session: ClusterSession, request: ClusterRequest = REQUEST) -> int:
    """Begin a cluster, and return its process."""
    before = children()
    session.begin(request)
    (process,) = children() - before
    return process


def pid_of(cluster: Cluster) -> int:
    assert cluster.pid is not None  # type: ignore[attr-defined]
    return int(cluster.pid)  # type: ignore[attr-defined]


def test_a_cluster_that_was_begun_is_the_next_tests(session: ClusterSession) -> None:
    ahead = begun(session)
    assert pid_of(session.cluster(REQUEST)) == ahead


@pytest.mark.slow
@pytest.mark.parametrize("what", ["workers", "options", "environment", "directory"])
def test_one_that_would_be_another_now_is_ended(
    session: ClusterSession,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: os.PathLike[str],
) -> None:
    ahead, request = begun(session), REQUEST
    if what == "workers":
        request = replace(request, workers=5)
    elif what == "options":
        request = replace(request, options=(("seed", "1"),))
    elif what == "environment":
        monkeypatch.setenv("A_VARIABLE", "1")
    else:
        monkeypatch.chdir(tmp_path)
    assert pid_of(session.cluster(request)) != ahead
    assert not psutil.pid_exists(ahead)


@pytest.mark.slow
def test_one_that_nobody_takes_ends_with_the_session(session: ClusterSession) -> None:
    ahead = begun(session)
    session.close()
    assert not psutil.pid_exists(ahead)


def test_one_that_died_meanwhile_is_an_error_that_says_so(session: ClusterSession) -> None:
    ahead = begun(session)
    os.kill(ahead, signal.SIGKILL)
    with pytest.raises(ClusterError, match=f"{ahead} was killed by signal 9 while starting"):
        session.cluster(REQUEST)
    assert pid_of(session.cluster(REQUEST)) != ahead


def test_only_virtual_clusters_are_begun(session: ClusterSession) -> None:
    before = children()
    session.begin(replace(REQUEST, kind="local"))
    assert children() == before


@pytest.mark.slow
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="none is begun on a single processor")
@pytest.mark.parametrize(
    ("backend", "clusters"), [("decisions", ["2", "2", "1"]), ("cputime", ["1", "1", "1"])]
)
def test_the_next_tests_cluster_starts_if_that_disturbs_nothing(
    project: Project, backend: str, clusters: list[str]
) -> None:
    result = project.run_test(TESTS, f"--schedprof={backend}", *VIRTUAL)
    result.assert_outcomes(passed=3)
    assert (project.path / "clusters").read_text().split() == clusters


@pytest.mark.slow
def test_what_happens_is_the_same_there_and_by_xdist(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the backend, the hash of the log is told."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    lines: list[str] = []
    for arguments in ((), ("-n2",)):
        result = project.run_test(TESTS, "--schedprof=counts", *VIRTUAL, *arguments)
        result.assert_outcomes(passed=3)
        lines += result.outlines
    hashes = re.findall(r"counts: 50 tasks in .*, hash (\w{8})$", "\n".join(lines), re.MULTILINE)
    assert len(hashes) == 6
    assert len(set(hashes)) == 1
    wait_for(lambda: not project.processes(), "all clusters to end")
