"""Tests of evidence of schedulers in the test's own process, and of `measure()` there."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from distributed import Scheduler
from support import Project

from pytest_schedprof.clusters.in_process import Observer, observing
from pytest_schedprof.evidence.in_process import NO_WORKER
from pytest_schedprof.model.evidence import MemorySamples, Spans, TaskStream, WorkerTransfers

BODY = """
from distributed import Client, Scheduler, span
from distributed.utils_test import gen_cluster
from pytest_schedprof import measure

def total(one, other):
    return len(one) + len(other)

LIMITS = ["transfers(count) <= 2", "transfers(bytes) <= 1kB"]

@pytest.mark.schedprof(*LIMITS, backend="cputime", rounds=2, evidence="span,tasks")
@gen_cluster(client=True, **PATIENT)
async def test_it(c, s, a, b):
    left = c.submit(bytes, 100_000, workers=[a.address])
    right = c.submit(bytes, 10, workers=[b.address])
    await wait([left, right])
    with measure(), span("inner"):
        await c.submit(total, left, right, workers=[b.address])

@pytest.mark.schedprof(backend="cputime", evidence="tasks")
@gen_cluster(client=True, **PATIENT)
async def test_that_breaks_its_observer(c, s, a, b):
    s.remove_plugin(name="task-stream")
    await c.submit(total, b"1", b"2")

@pytest.mark.schedprof("memory(unmanaged) <= 40GiB", backend="cputime")
@gen_cluster(client=True, **PATIENT)
async def test_memory(c, s, a, b):
    for _ in range(10):
        await c.submit(inc, 1, pure=False)

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


MEMORY = ("memory.measures=process,optimistic", "memory.interval=10min")


def read(project: Project, test: str, file: str, kind: Any) -> Any:
    (path,) = project.run_directory.glob(f"tests/*{test}-*/{file}")
    return msgspec.json.decode(path.read_bytes(), type=kind)


@pytest.mark.slow
@pytest.mark.usefixtures("apart")
def test_schedulers_of_the_tests_own_process(project: Project) -> None:
    options = [f"--schedprof-option={option}" for option in MEMORY]
    project.run_test(BODY, *options).assert_outcomes(passed=5, failed=1)
    records = project.results()
    of_limits = records["test_it"]
    assert {limit.limit: limit.verdict.value for limit in of_limits.limits} == {
        "transfers(count) <= 2": "pass",
        "transfers(bytes) <= 1kB": "fail",
    }
    assert of_limits.backends[0].window.tasks == 2
    logs = read(project, "test_it", "transfers.json", list[WorkerTransfers])
    received = sorted(sum(one.bytes for one in log.incoming) // 1000 for log in logs)
    assert received == [0, 0, 100, 100]
    stream = read(project, "test_it", "tasks.json", TaskStream)
    assert [task.take for task in stream.tasks] == [1] * 3 + [2] * 3
    spans = read(project, "test_it", "span.json", Spans)
    assert [[child.name[-1] for child in take.children] for take in spans.takes] == [["inner"]] * 2
    assert [take.tasks for take in spans.takes] == [3, 3]
    (broken,) = records["test_that_breaks_its_observer"].evidence
    assert "task-stream" in broken.missing

    samples = read(project, "test_memory", "memory.json", list[MemorySamples])
    counts = {one.measure: len(one.samples) for one in samples}
    assert set(counts) == {"process", "optimistic", "unmanaged"}
    assert counts["process"] == 3  # one as the scheduler starts, and one as each worker leaves
    assert [limit.verdict.value for limit in records["test_memory"].limits] == ["pass"]

    elsewhere = {kind.kind: kind.missing for kind in records["test_workers_elsewhere"].evidence}
    assert elsewhere == {"tasks": "", "transfers": NO_WORKER, "memory": ""}
    goes_on = records["test_one_that_goes_on"]
    assert goes_on.backends[0].window.tasks == 1
    assert not any(kind.missing for kind in goes_on.evidence)
    assert len(read(project, "test_one_that_goes_on", "tasks.json", TaskStream).tasks) == 2
    spans = read(project, "test_one_that_goes_on", "span.json", Spans)
    assert spans.default == ()  # what the fixture did was before


class Noting(Observer):
    def __init__(self) -> None:
        self.schedulers: list[Scheduler] = []

    def begin(self, scheduler: Scheduler) -> None:
        self.schedulers.append(scheduler)


async def start_nothing(scheduler: Any) -> None:
    """Stand for what starts a scheduler."""


def test_an_observer_that_has_ended_stays_so_if_a_monkeypatch_puts_its_patch_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    during, after = Noting(), Noting()
    monkeypatch.setattr(Scheduler, "start_unsafe", start_nothing)
    scheduler: Any = SimpleNamespace(thread_id=threading.get_ident())
    with observing(during):
        asyncio.run(Scheduler.start_unsafe(scheduler))
    with pytest.MonkeyPatch.context() as theirs, observing(after):
        theirs.setattr(Scheduler, "start_unsafe", None)
    asyncio.run(Scheduler.start_unsafe(scheduler))
    assert during.schedulers == [scheduler]
    assert after.schedulers == []
