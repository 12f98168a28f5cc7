"""Tests of evidence of schedulers in the test's own process, and of `measure()` there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support import Project

from pytest_schedprof.evidence.in_process import NO_WORKER
from pytest_schedprof.model.evidence import Spans, TaskStream, WorkerTransfers

IMPORTS = """
from distributed import Client, Scheduler, span
from pytest_schedprof import measure

def total(one, other):
    return len(one) + len(other)
"""

GEN_CLUSTER = f"""{IMPORTS}
from distributed.utils_test import gen_cluster

LIMITS = ["transfers(count) <= 2", "transfers(bytes) <= 1kB"]

@pytest.mark.schedprof(*LIMITS, backend="counts", rounds=2, evidence="span,tasks")
@gen_cluster(client=True)
async def test_it(c, s, a, b):
    left = c.submit(bytes, 100_000, workers=[a.address])
    right = c.submit(bytes, 10, workers=[b.address])
    await wait([left, right])
    with measure(), span("inner"):
        await c.submit(total, left, right, workers=[b.address])

@pytest.mark.schedprof(backend="counts", evidence="tasks")
@gen_cluster(client=True)
async def test_that_breaks_its_observer(c, s, a, b):
    s._schedprof_task_stream = None
    await c.submit(total, b"1", b"2")
"""

CLUSTERS = f"""{IMPORTS}
@pytest.mark.schedprof(backend="counts", evidence="tasks,transfers,memory")
def test_workers_elsewhere():
    with Client(processes=True, n_workers=1, dashboard_address=":0") as client:
        client.submit(total, b"1", b"2").result()

@pytest.fixture(scope="module")
def client():
    with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
        client.submit(total, b"1", b"2", pure=False).result()
        yield client

@pytest.mark.schedprof(backend="counts", evidence="tasks,transfers,memory,span")
def test_one_that_goes_on(client):
    with measure():
        client.submit(total, b"1", b"2", pure=False).result()
    client.submit(total, b"1", b"2", pure=False).result()

def test_nothing_is_left(client):
    assert not hasattr(Scheduler.close, "__wrapped__")
    assert not hasattr(Scheduler.start_unsafe, "__wrapped__")
    plugins = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.plugins))
    assert "task-stream" not in plugins
"""


def read(project: Project, test: str, file: str, kind: Any) -> Any:
    (path,) = project.run_directory.glob(f"tests/*{test}*/{file}")
    return msgspec.json.decode(path.read_bytes(), type=kind)


@pytest.mark.slow
@pytest.mark.usefixtures("apart")
def test_schedulers_that_live_within_the_body(project: Project) -> None:
    project.run_test(GEN_CLUSTER).assert_outcomes(passed=1, failed=1)
    records = project.results()
    both = records["test_it"]
    assert {each.limit: each.verdict.value for each in both.limits} == {
        "transfers(count) <= 2": "pass",
        "transfers(bytes) <= 1kB": "fail",
    }
    assert both.backends[0].window.tasks == 2
    logs = read(project, "test_it", "transfers.json", list[WorkerTransfers])
    received = sorted(sum(each.bytes for each in log.incoming) // 1000 for log in logs)
    assert received == [0, 0, 100, 100]
    stream = read(project, "test_it", "tasks.json", TaskStream)
    assert [each.take for each in stream.tasks] == [1, 1, 1, 2, 2, 2]
    spans = read(project, "test_it", "span.json", Spans)
    assert [[child.name[-1] for child in take.children] for take in spans.takes] == [["inner"]] * 2
    assert [take.tasks for take in spans.takes] == [3, 3]
    (broken,) = records["test_that_breaks_its_observer"].evidence
    assert "NoneType" in broken.missing


@pytest.mark.slow
@pytest.mark.usefixtures("apart")
def test_clusters_in_a_thread_and_workers_elsewhere(project: Project) -> None:
    project.run_test(CLUSTERS).assert_outcomes(passed=3)
    records = project.results()
    kinds = {each.kind: each.missing for each in records["test_workers_elsewhere"].evidence}
    assert kinds == {"tasks": "", "transfers": NO_WORKER, "memory": ""}
    goes_on = records["test_one_that_goes_on"]
    assert goes_on.backends[0].window.tasks == 1
    assert not any(each.missing for each in goes_on.evidence)
    assert len(read(project, "goes_on", "tasks.json", TaskStream).tasks) == 2
