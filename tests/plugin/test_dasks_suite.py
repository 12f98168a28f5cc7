"""Tests in the style of distributed's own suite, under its own settings."""

from __future__ import annotations

import threading
from importlib.util import find_spec

import pytest
from distributed import Client
from support import Project

from pytest_schedprof.clusters import in_process
from pytest_schedprof.errors import ClusterError
from pytest_schedprof.evidence.contract import NO_SCHEDULER
from pytest_schedprof.model.result import Result

INI = r"""
[pytest]
addopts = -v -rsfE --strict-markers --strict-config -p no:asyncio -p no:legacypath
filterwarnings =
    error
    ignore:unclosed <socket\.socket.*:ResourceWarning
    ignore:unclosed event loop <_(Unix|Windows)SelectorEventLoop.*:ResourceWarning
    ignore:unclosed transport <_SelectorSocketTransport.*:ResourceWarning
minversion = 6
markers =
    slow: marks tests as slow
    leaking: ignore leaked resources
timeout_method = thread
timeout = 600
"""
"""Settings of distributed's pyproject.toml, without filters of warnings that cannot occur here."""

CONFTEST = """
from distributed.utils_test import *

pytest_plugins = ["distributed.pytest_resourceleaks"]
"""

BACKENDS = ["counts", "cputime", "pyspy", "cprofile", "viztracer", "memray"]

SUITE = """
import dask
import pytest
from distributed import Client, Scheduler, Worker, wait
from distributed.utils_test import gen_cluster, gen_test, inc

PATIENT = {"timeout": 300, "config": {"distributed.comm.timeouts.connect": "300s"}}

@gen_cluster(client=True, **PATIENT)
async def test_first(c, s, a, b):  # the first one of a suite leaks two descriptors of its own
    await c.submit(inc, 1)

LIMIT = "calls(distributed.scheduler:SchedulerState._transition) <= 6.5"

@pytest.mark.schedprof(LIMIT, backend=BACKENDS)
@gen_cluster(client=True, **PATIENT)
async def test_gen_cluster(c, s, a, b):
    await wait(c.map(inc, range(20)))

@pytest.mark.schedprof("duration(inc) <= 100s", backend="cputime", evidence="all", rounds=2)
@gen_cluster(client=True, **PATIENT)
async def test_evidence(c, s, a, b):
    from pytest_schedprof import measure
    await wait(c.map(inc, range(10)))
    async with measure():
        await wait(c.map(inc, range(50), pure=False))

@pytest.mark.schedprof(backend="cputime", evidence="all")
@gen_cluster(client=True, **PATIENT)  # looks for processes that the body left
async def test_local_scheduler_beside(c, s, a, b):
    assert dask.get({"x": (inc, 1)}, "x") == 2

@pytest.mark.schedprof(backend=["counts", "cputime"])
@gen_test(timeout=300)
async def test_gen_test():
    async with Scheduler(dashboard_address=":0", port=0) as s, Worker(s.address):
        async with Client(s.address, asynchronous=True) as c:
            await wait(c.map(inc, range(20)))

@pytest.mark.schedprof(backend="pyspy")
def test_cluster_in_a_thread(loop, cleanup):
    with Client(processes=False, n_workers=1, loop=loop, dashboard_address=":0") as c:
        wait(c.map(inc, range(20)))
"""


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("distributed.pytest_resourceleaks") is None,
    reason="distributed 2025.9 and older have no plugin that looks for leaks",
)
@pytest.mark.usefixtures("apart")
def test_adds_no_thread_process_descriptor_or_warning(project: Project) -> None:
    (project.path / "tox.ini").write_text(INI)
    (project.path / "conftest.py").write_text(CONFTEST)
    (project.path / "test_it.py").write_text(SUITE.replace("BACKENDS", str(BACKENDS)))
    project.plugins = ("timeout",)
    result = project.run("-L", "fds,threads,processes", "--leaks-fail")
    result.assert_outcomes(passed=6)
    result.stdout.no_fnmatch_line("*LEAKED*")
    records = project.results()
    evidence = {
        kind.kind: kind.missing for kind in records.pop("test_local_scheduler_beside").evidence
    }
    assert not evidence.pop("local")
    assert {kind for kind, text in evidence.items() if text == NO_SCHEDULER} == {
        "report",
        "workers",
    }
    check_evidence(records.pop("test_evidence"))
    in_process = [record.backends for record in records.values()]
    assert sorted(len(backends) for backends in in_process) == [1, 2, len(BACKENDS)]
    assert all(backend.window.tasks == 20 for backends in in_process for backend in backends)


def check_evidence(record: Result) -> None:
    """Check what is known of two runs of the body, each with a scheduler of its own."""
    kinds = {kind.kind: kind for kind in record.evidence}
    assert {name for name, kind in kinds.items() if not kind.missing} == {
        *("span", "memory", "tasks", "transfers", "phases")
    }
    assert record.backends[0].window.tasks == 2 * 50
    durations = {row.subject: row.amounts for row in kinds["tasks"].amounts}
    assert len(durations["inc"]) == 2
    assert [limit.verdict.value for limit in record.limits] == ["pass"]
    process = next(row for row in kinds["memory"].amounts if row.subject == "process")
    assert min(process.amounts) > 1e6
    phases = {row.subject: row.amounts[0] for row in kinds["phases"].amounts}
    assert "sending" not in phases
    assert sum(phases.values()) <= record.backends[0].window.cpu_seconds / 100


LOOP_IN_A_THREAD = """
from distributed import Client

def marked(backend):
    return pytest.param(backend, marks=pytest.mark.schedprof(backend=backend), id=backend)

@pytest.fixture(scope="module")
def earlier():
    with Client(processes=False, n_workers=1, dashboard_address=":0", set_as_default=False) as made:
        yield made

@pytest.mark.parametrize("backend", [marked(name) for name in ["cputime", "viztracer", "cprofile"]])
def test_unseen(backend):
    with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
        wait(client.map(inc, range(20)))

LIMIT = "calls(distributed.scheduler:SchedulerState._transition) <= 6.5"

@pytest.mark.schedprof(LIMIT, backend="counts")
def test_counts():
    with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
        wait(client.map(inc, range(50)))

@pytest.mark.schedprof(LIMIT, backend="counts")
def test_counts_in_a_loop_that_ran_before(earlier):
    earlier.gather(earlier.map(inc, range(50)))

def test_nothing_traces_afterwards(earlier):
    import sys, threading
    assert threading.gettrace() is sys.gettrace() is None
    earlier.submit(inc, 1).result()
    assert earlier.run_on_scheduler(sys.gettrace) is None
"""


def test_a_scheduler_whose_loop_is_in_a_thread(project: Project) -> None:
    """As that of a `LocalCluster`; `counts` finds it in any thread."""
    result = project.run_test(LOOP_IN_A_THREAD)
    result.assert_outcomes(passed=3, failed=3)
    for backend in ("cputime", "viztracer", "cprofile"):
        what = f"the test is marked, but {backend} cannot see its scheduler, whose event *"
        result.stdout.fnmatch_lines([f"schedprof: {what}"])
    for name in ("test_counts", "test_counts_in_a_loop_that_ran_before"):
        (counted,) = project.results()[name].backends
        assert counted.window.tasks == 50
        assert 4 < counted.limits[0].findings[0].estimate.value <= 6.5


def test_a_blocked_loop_fails_its_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was to run there runs no later either: it would count for ever."""
    monkeypatch.setattr(in_process, "LOOP_S", 0.2)
    ran: list[bool] = []
    may_go_on = threading.Event()
    with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
        schedulers = in_process.Schedulers()
        client.loop.add_callback(may_go_on.wait, 60)
        with pytest.raises(ClusterError, match=r"was blocked for 0.2 s"):
            schedulers.run_on_loops(lambda: ran.append(True))
        may_go_on.set()
        client.submit(int, 1).result()
        schedulers.run_on_loops(lambda: ran.append(False))
    assert ran == [False]
