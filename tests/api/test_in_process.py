"""A scheduler that lives in the caller's own process, as that of `Client()` does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT_S = 110

HEADER = """
import asyncio, os
import psutil
from distributed import Client, LocalCluster, wait
from pytest_schedprof import profile_scheduler, pyspy_on_scheduler, viztrace_scheduler
from pytest_schedprof.errors import SchedulerLostError

QUIET = {"n_workers": 1, "dashboard_address": ":0", "processes": False}

TRACING = viztrace_scheduler(
    "viztracer.json", trace_sparse="distributed.Scheduler.update_graph"
)

def inc(x):
    return x + 1

def profilers():
    children = psutil.Process().children(recursive=True)
    return [child.name() for child in children if "multiprocessing" not in arguments(child)]

def arguments(process):
    try:
        return str(process.cmdline())
    except psutil.ZombieProcess:  # it has ended, and is looked after in a moment
        return ""

"""

UPDATE_GRAPH = "Scheduler.update_graph" if sys.version_info >= (3, 11) else "update_graph"
"""As viztracer names it: qualified where code knows its qualified name."""

SCRIPTS = {
    "threads": """
with Client(**QUIET) as client:
    with pyspy_on_scheduler("pyspy.json"), TRACING:
        wait(client.map(inc, range(500)))
    assert profilers() == []
""",
    "nannies": """
if __name__ == "__main__":
    with Client(**{**QUIET, "processes": True}) as client:
        with pyspy_on_scheduler("pyspy.json"), TRACING:
            wait(client.map(inc, range(500)))
        with profile_scheduler("pyspy", limits="share(@transitions) <= 99%") as profile:
            wait(client.map(inc, range(500), pure=False))
        assert profile.result.backends[0].window.tasks == 500
        assert profile.result.backends[0].shares.busy_samples > 0
        assert profilers() == []
""",
    "asynchronous": """
async def main():
    async with Client(**QUIET, asynchronous=True) as client:
        async with pyspy_on_scheduler("pyspy.json"), TRACING:
            await client.gather(client.map(inc, range(500)))
        assert profilers() == []

asyncio.run(main())
""",
}

AGAIN = """
with Client(**QUIET) as client:
    for backend in ("counts", "counts", "cprofile", "cprofile", "memray", "memray"):
        with profile_scheduler(backend) as profile:
            wait(client.map(inc, range(100), pure=False))
        assert profile.result.troubles == ()
        assert profile.result.backends[0].window.tasks == 100
"""


def test_every_backend_works_here_and_more_than_once(tmp_path: Path) -> None:
    """A process that is both sides has but one of each of the agent's classes."""
    run_script(HEADER + AGAIN, tmp_path)


CLOSING = {
    "with its loop": """
client = Client(**QUIET)
try:
    with pyspy_on_scheduler("pyspy.json"):
        assert profilers()
        client.close()
except SchedulerLostError as error:
    assert "died or was closed" in str(error), error
    assert profilers() == []
""",
    "while its loop goes on": """
async def main():
    client = await Client(**QUIET, asynchronous=True)
    try:
        async with pyspy_on_scheduler("pyspy.json"):
            assert profilers()
            await client.close()
    except SchedulerLostError as error:
        assert "died or was closed" in str(error), error
    while profilers():
        await asyncio.sleep(0.05)

asyncio.run(asyncio.wait_for(main(), 30))
""",
}


def run_script(source: str, path: Path) -> None:
    """A script of a user's, in a process of its own."""
    (path / "script.py").write_text(source)
    process = subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, timeout=TIMEOUT_S, cwd=path
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("kind", SCRIPTS)
def test_both_see_the_scheduler_in_this_process(tmp_path: Path, kind: str) -> None:
    run_script(HEADER + SCRIPTS[kind], tmp_path)
    assert json.loads((tmp_path / "pyspy.json").read_text())["profiles"]
    events = json.loads((tmp_path / "viztracer.json").read_text())["traceEvents"]
    assert any(UPDATE_GRAPH in event["name"] for event in events)


@pytest.mark.parametrize("kind", CLOSING)
def test_scheduler_closed_in_the_body_leaves_no_profiler(tmp_path: Path, kind: str) -> None:
    run_script(HEADER + CLOSING[kind], tmp_path)
    assert not (tmp_path / "pyspy.json").exists()


ANCESTOR = """
import dask
import distributed

from pytest_schedprof import pyspy_on_scheduler, viztrace_scheduler

client = distributed.Client()

df = dask.datasets.timeseries(
    start="2000-01-01",
    end="2000-01-04",
    partition_freq="1h",
    freq="60s",
)

with (
    pyspy_on_scheduler("pyspy.json"),
    # ^ Saves a speedscope profile to `pyspy.json` locally
    viztrace_scheduler(
        "viztracer.json", trace_sparse="distributed.Scheduler.update_graph"
    ),
    # ^ Saves a Chrome trace to `viztracer.json` locally
):
    df.set_index("id").mean(numeric_only=True).compute()
"""
"""The README of scheduler-profiling, with its import changed, a quarter of its days, and two names
of its time: that handler was then `update_graph_hlg`, and pandas took the mean of numbers alone."""


@pytest.mark.slow
def test_example_of_scheduler_profiling(tmp_path: Path) -> None:
    """By `-c`, as in a notebook: a script must not start processes when it is imported."""
    subprocess.run([sys.executable, "-c", ANCESTOR], check=True, timeout=TIMEOUT_S, cwd=tmp_path)
    assert json.loads((tmp_path / "pyspy.json").read_text())["profiles"]
    events = json.loads((tmp_path / "viztracer.json").read_text())["traceEvents"]
    assert any(UPDATE_GRAPH in event["name"] for event in events)
