"""A test whose marker names a recorded workload."""

from __future__ import annotations

import pytest
from distributed import Client, wait
from support import Project

from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.replay.fetching import record_workload


def inc(x: int) -> int:
    return x + 1


BODY = """
from pytest_schedprof.workloads import replay

def replay_on(scheduler, workers):
    assert replay(scheduler.client) == 8
    threads = scheduler.client.nthreads().values()
    assert [*threads] == [2] * workers

@pytest.mark.schedprof("makespan <= 3s", workload="work.schedprof")
def test_recorded(schedprof_scheduler):
    replay_on(schedprof_scheduler, 4)

@pytest.mark.schedprof("makespan <= 3s", workload="work.schedprof", workers=2)
def test_fewer(schedprof_scheduler):
    replay_on(schedprof_scheduler, 2)

@pytest.mark.schedprof(workload="missing.schedprof")
def test_missing(schedprof_scheduler):
    pass
"""


@pytest.mark.slow
def test_a_marker_brings_the_recorded_workers(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = VirtualCluster(4, timeout_s=60, threads=2, options={"duration": "1s"})
    try:
        path = project.path / "work.schedprof"
        with Client(cluster.address) as client, record_workload(client, path):
            wait(client.map(inc, range(8), pure=False))
    finally:
        cluster.close()
    options = ("--schedprof=decisions", "--schedprof-cluster=virtual")
    result = project.run_test(BODY, *options)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        ["*cluster option workload: the workload missing.schedprof cannot be*"]
    )

    # A task takes its recorded second on both sides, of which only one sends tasks ahead.
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    project.is_apart = True
    project.run_directory.rename(project.path / "earlier")
    against = "--schedprof-against=config:distributed.scheduler.worker-saturation=inf"
    project.run(*options, against, "-k", "fewer").assert_outcomes(passed=1, deselected=2)
    (comparison,) = project.result().comparisons
    assert comparison.reasons == ()
    assert comparison.same > 5
