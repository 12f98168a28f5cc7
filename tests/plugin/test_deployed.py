"""Tests of clusters that dask deploys, and their clients, given by a user's fixture."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from distributed import Client, LocalCluster
from support import Finished

from pytest_schedprof.clusters.attached import as_cluster
from pytest_schedprof.errors import ClusterError

TEST = """
import distributed
from distributed.deploy.subprocess import SubprocessCluster

@pytest.fixture(scope="module")
def cluster():
    with {cluster}, n_workers=1, threads_per_worker=1) as cluster:
        yield cluster

@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client

@pytest.fixture(params={params})
def schedprof_cluster(request):
    return request.getfixturevalue(request.param)

@pytest.mark.schedprof(
    "calls(distributed.scheduler:SchedulerState._transition) <= 6.1", backend={backends}
)
def test_{name}(schedprof_scheduler):
    assert (schedprof_scheduler.pid == os.getpid()) == {is_here}
    wait(schedprof_scheduler.client.map(inc, range(100), pure=False))
    burn(schedprof_scheduler, 0.3)
"""

ELSEWHERE = "SubprocessCluster(dashboard_address=None"
"""A cluster that starts each process with a command, as `SSHCluster` does."""
PROCESSES = "distributed.LocalCluster(dashboard_address=':0', processes=True"
THREADS = "distributed.LocalCluster(dashboard_address=':0', processes=False"


KINDS = {
    "elsewhere": (ELSEWHERE, ["pyspy", "cputime", "counts"], ["cluster", "client"]),
    "processes": (PROCESSES, ["counts"], ["client"]),
    "threads": (THREADS, ["counts"], ["cluster"]),
}


@pytest.mark.slow
def test_clusters_of_dasks_and_their_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first releases of SubprocessCluster start `dask` by its name.
    directories = (os.path.dirname(sys.executable), os.environ["PATH"])
    monkeypatch.setenv("PATH", os.pathsep.join(directories))
    files = {
        f"test_{name}.py": TEST.format(
            cluster=cluster,
            backends=backends,
            params=params,
            name=name,
            is_here=name != "elsewhere",
        )
        for name, (cluster, backends, params) in KINDS.items()
    }
    session = Finished(tmp_path, files)
    tests = {
        f"test_{name}[{parameter}]": name
        for name, (_, _, params) in KINDS.items()
        for parameter in params
    }
    assert session.outcomes == dict.fromkeys(tests, "passed"), session.process.stdout
    for test, record in session.results().items():
        assert record.cluster.kind == "attached"
        assert {backend.backend for backend in record.backends} == {*KINDS[tests[test]][1]}
        for backend in record.backends:
            assert backend.window.tasks == 100
            if backend.shares is not None:
                functions = [share.function for share in backend.shares.functions]
                assert any(name.endswith("burn_scheduler_cpu") for name in functions)


def test_what_is_not_connected_is_refused_in_words() -> None:
    async def not_awaited() -> None:
        cluster = LocalCluster(n_workers=0, asynchronous=True, dashboard_address=":0")
        refuse(cluster, "created")
        async with cluster:
            client = Client(cluster, asynchronous=True)
            refuse(client, "newly-created")
            async with client:
                assert as_cluster(client).address == cluster.scheduler_address
            refuse(client, "closed")
        refuse(cluster, "closed")

    asyncio.run(not_awaited())


def refuse(value: object, status: str) -> None:
    """Check that the value is refused, with a message that has value, status and remedy."""
    with pytest.raises(ClusterError) as raised:
        as_cluster(value)
    assert f"returned {value!r}, which is not connected" in str(raised.value)
    assert f"(its status is {status!r}); return one that is started" in str(raised.value)
