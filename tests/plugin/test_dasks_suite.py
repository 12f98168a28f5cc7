"""Tests in the style of distributed's own suite, under its own settings."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest
from support import Project

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
timeout = 300
"""
"""As in distributed's pyproject.toml, but for filters of warnings that nothing here can emit."""

CONFTEST = """
from distributed.utils_test import *

pytest_plugins = ["distributed.pytest_resourceleaks"]
"""

SUITE = """
import pytest
from distributed import Client, Scheduler, Worker, wait
from distributed.utils_test import gen_cluster, gen_test, inc

@gen_cluster(client=True)
async def test_first(c, s, a, b):  # the first one of a suite leaks two descriptors of its own
    await c.submit(inc, 1)

@pytest.mark.schedprof("calls(distributed.scheduler:SchedulerState._transition) <= 6.5", LIMITS)
@gen_cluster(client=True)
async def test_gen_cluster(c, s, a, b):
    await wait(c.map(inc, range(200)))

@pytest.mark.schedprof(LIMITS)
@gen_test()
async def test_gen_test():
    async with Scheduler(dashboard_address=":0", port=0) as s, Worker(s.address):
        async with Client(s.address, asynchronous=True) as c:
            await wait(c.map(inc, range(200)))

@pytest.mark.schedprof(backend="pyspy")
def test_cluster_in_a_thread(loop, cleanup):
    with Client(processes=False, n_workers=1, loop=loop, dashboard_address=":0") as c:
        wait(c.map(inc, range(200)))
"""


@pytest.mark.skipif(
    find_spec("distributed.pytest_resourceleaks") is None,
    reason="distributed 2025.9 and older have no plugin that looks for leaks",
)
@pytest.mark.usefixtures("apart")
def test_adds_no_thread_process_descriptor_or_warning(project: Project) -> None:
    (project.path / "tox.ini").write_text(INI)
    (project.path / "conftest.py").write_text(CONFTEST)
    backends = 'backend=["counts", "cputime", "pyspy"]'
    (project.path / "test_it.py").write_text(SUITE.replace("LIMITS", backends))
    result = project.run("-L", "fds,threads,processes", "--leaks-fail")
    result.assert_outcomes(passed=4)
    result.stdout.no_fnmatch_line("*LEAKED*")
    in_process = [record.backends for record in project.results().values()]
    assert sorted(len(backends) for backends in in_process) == [1, 3, 3]
    assert all(each.window.tasks == 200 for backends in in_process for each in backends)


@pytest.mark.parametrize("backend", ["cputime", "counts"])
def test_a_scheduler_that_a_backend_cannot_see(project: Project, backend: str) -> None:
    result = project.run_test(
        f"""
from distributed import Client

@pytest.mark.schedprof(backend={backend!r})
def test_it():
    with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
        wait(client.map(inc, range(200)))
"""
    )
    if backend == "counts" and sys.version_info >= (3, 12):
        return result.assert_outcomes(passed=1)  # it sees all threads there
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"schedprof: the test is marked, but {backend} cannot see its scheduler, whose event *"]
    )
