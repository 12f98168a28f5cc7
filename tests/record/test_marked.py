"""A test whose marker names a recorded workload."""

from __future__ import annotations

from pathlib import Path

import pytest
from distributed import Client, wait
from support import Project

from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.model.result import Result
from pytest_schedprof.replay.fetching import record_workload
from pytest_schedprof.store.records import read_record

BODY = """
from pytest_schedprof.workloads import replay

@pytest.mark.schedprof("makespan <= 3s", workload="work.schedprof", workers=given)
def test_it(schedprof_scheduler):
    assert replay(schedprof_scheduler.client) == 8
    workers = schedprof_scheduler.client.nthreads()
    assert (len(workers), set(workers.values())) == expected
"""


def inc(x: int) -> int:
    return x + 1


def record(path: Path) -> None:
    """Record eight tasks of a second on four workers with two threads."""
    cluster = VirtualCluster(4, timeout_s=60, threads=2, options={"duration": "1s"})
    try:
        with Client(cluster.address) as client, record_workload(client, path):
            wait(client.map(inc, range(8), pure=False))
    finally:
        cluster.close()


@pytest.mark.slow
@pytest.mark.parametrize("given", [None, 2])
def test_a_marker_brings_the_recorded_workers(project: Project, given: int | None) -> None:
    record(project.path / "work.schedprof")
    marker = f", workers={given}" if given else ""
    body = BODY.replace(", workers=given", marker).replace("expected", f"({given or 4}, {{2}})")
    result = project.run_test(body, "--schedprof=decisions", "--schedprof-cluster=virtual")
    result.assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_recorded_workload_is_replayed_on_both_sides(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task takes its recorded second on both; only one of them sends tasks ahead."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    project.is_apart = True
    record(project.path / "work.schedprof")
    body = BODY.replace(", workers=given", ", workers=2").replace("expected", "(2, {2})")
    options = ("--schedprof=decisions", "--schedprof-cluster=virtual")
    against = "--schedprof-against=config:distributed.scheduler.worker-saturation=inf"
    result = project.run_test(body, *options, against)
    result.assert_outcomes(passed=1)
    (record_of_test,) = (project.path / ".schedprof").glob("*/tests/*/result.json")
    (comparison,) = read_record(record_of_test, Result).comparisons
    assert comparison.reasons == ()
    assert comparison.same > 5


def test_a_missing_file_is_told(project: Project) -> None:
    body = BODY.replace(", workers=given", "")
    result = project.run_test(body, "--schedprof=decisions", "--schedprof-cluster=virtual")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*cluster option workload: the workload work.schedprof cannot be*"]
    )
