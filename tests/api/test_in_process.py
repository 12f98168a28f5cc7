"""Tests of a scheduler in the caller's own process, like that of `Client()`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_schedprof.agent import facts
from pytest_schedprof.clusters.in_process import PLACES, InProcess

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

UPDATE_GRAPH = "Scheduler.update_graph"
"""The function's name in viztracer's output."""

SCRIPTS = {
    # A process that is both client and scheduler has only one of each class of the agent.
    "threads": """
client = Client(**QUIET)
with pyspy_on_scheduler("pyspy.json"), TRACING:
    wait(client.map(inc, range(60)))
assert profilers() == []
for backend in ("counts", "counts", "cprofile", "cprofile", "memray", "memray"):
    with profile_scheduler(backend) as profile:
        wait(client.map(inc, range(20), pure=False))
    assert profile.result.troubles == ()
    assert profile.result.backends[0].window.tasks == 20
try:
    with pyspy_on_scheduler("closed.json"):
        assert profilers()
        client.close()
except SchedulerLostError as error:
    assert "died or was closed" in str(error), error
    assert profilers() == []
""",
    "nannies": """
if __name__ == "__main__":
    with Client(**{**QUIET, "processes": True}) as client:
        with pyspy_on_scheduler("pyspy.json"), TRACING:
            wait(client.map(inc, range(60)))
        with profile_scheduler("pyspy", limits="share(@transitions) <= 99%") as profile:
            wait(client.map(inc, range(200), pure=False))
        assert profile.result.backends[0].window.tasks == 200
        assert profile.result.backends[0].shares.busy_samples > 0
        assert profilers() == []
""",
    "asynchronous": """
async def main():
    client = await Client(**QUIET, asynchronous=True)
    async with pyspy_on_scheduler("pyspy.json"), TRACING:
        await client.gather(client.map(inc, range(60)))
    assert profilers() == []
    try:
        async with pyspy_on_scheduler("closed.json"):
            assert profilers()
            await client.close()
    except SchedulerLostError as error:
        assert "died or was closed" in str(error), error
    while profilers():  # its loop goes on
        await asyncio.sleep(0.05)

asyncio.run(asyncio.wait_for(main(), 60))
""",
}
"""Scripts that profile, and of which two close the scheduler in a body that is profiled."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCRIPTS)
def test_users_see_the_scheduler_in_their_process(tmp_path: Path, kind: str) -> None:
    (tmp_path / "script.py").write_text(HEADER + SCRIPTS[kind])
    command = [sys.executable, "script.py"]
    process = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=tmp_path
    )
    assert process.returncode == 0, process.stderr
    assert json.loads((tmp_path / "pyspy.json").read_text())["profiles"]
    events = json.loads((tmp_path / "viztracer.json").read_text())["traceEvents"]
    assert any(UPDATE_GRAPH in event["name"] for event in events)
    assert not (tmp_path / "closed.json").exists()


def test_versions_and_names_are_looked_up_once_per_process() -> None:
    """Profiled tests of dask's own suite are short: reading versions took 37 ms for each."""
    for _ in range(2):
        before = facts._version.cache_info().misses
        scheduler = InProcess()
        scheduler.schedulers.unwatch()
    assert facts._version.cache_info().misses == before
    place = (json.__file__, "dumps", json.dumps.__code__.co_firstlineno)  # has one name only
    named = [scheduler.name_places([place]) for _ in range(2)]
    assert named == [["json:dumps"]] * 2
    assert PLACES[place] == named[0][0]
