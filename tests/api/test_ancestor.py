"""Tests that users of scheduler-profiling and dask-pyspy change one import and nothing else."""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from at_work import inc
from distributed import Client
from support import python, wait_for

from pytest_schedprof import pyspy_on_scheduler, viztrace_scheduler
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.measuring.ancestor import UNPACK

PYSPY = {
    "output": inspect.Parameter.empty,
    "format": "speedscope",
    "rate": 100,
    "subprocesses": True,
    "function": False,
    "gil": False,
    "threads": False,
    "idle": True,
    "nonblocking": False,
    "native": False,
    "extra_pyspy_args": (),
    "log_level": None,
    "client": None,
}
"""Parameters of dask-pyspy 0.4.0, in its order, with its defaults."""

VIZTRACER = {
    "output": inspect.Parameter.empty,
    "tracer_entries": 1000000,
    "verbose": 1,
    "max_stack_depth": -1,
    "include_files": None,
    "exclude_files": None,
    "ignore_c_function": False,
    "ignore_frozen": False,
    "log_func_retval": False,
    "log_func_args": False,
    "log_print": False,
    "log_gc": False,
    "log_sparse": (),
    "trace_sparse": (),
    "log_async": False,
    "vdb": False,
    "file_info": False,
    "register_global": True,
    "plugins": None,
    "client": None,
}
"""The same of scheduler-profiling."""

UPDATE = "distributed.Scheduler.update_graph"
FINISHED = "distributed.Scheduler.handle_task_finished"


def burn_here(dask_scheduler: Any = None) -> None:
    import time

    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalProcesses]:
    """A cluster with a worker."""
    cluster = LocalProcesses(1, timeout_s=300)
    yield cluster
    cluster.close()


@pytest.mark.parametrize(
    ("function", "theirs"), [(pyspy_on_scheduler, PYSPY), (viztrace_scheduler, VIZTRACER)]
)
def test_parameters_are_the_ancestors(function: Callable[..., Any], theirs: Any) -> None:
    """The format is chosen by the path where none is given: without `.svg`, the ancestor's."""
    parameters = inspect.signature(function).parameters.values()
    mine = {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    }
    assert list(mine) == list(theirs)
    assert {**mine, "format": "speedscope"} == {"format": "speedscope", **theirs}


def names_in(trace: Path) -> Counter[str]:
    events = json.loads(trace.read_text())["traceEvents"]
    return Counter(event["name"].partition(" (")[0].rpartition(".")[2] for event in events)


def test_readme_several_functions(
    client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What unpacked a graph has another name now, and a thread of its own: its runs are logged.

    So has a handler. An async function works well here, though the ancestor's README warns of it.
    """
    path = tmp_path / "viztracer.json"
    functions = [UNPACK, FINISHED, f"{UPDATE}_hlg", "distributed.comm.tcp.TCP.read"]

    def work() -> None:
        client.gather(client.map(inc, range(20), pure=False))

    work()  # starts the thread that unpacks graphs, in which the first call was traced twice
    with viztrace_scheduler(path, trace_sparse=functions):
        work()
    names = names_in(path)
    assert names["handle_task_finished"] == 20
    assert names["_materialize_graph"] == 1
    assert names["update_graph"] >= 1
    assert names["read"] >= 1
    assert f"{UNPACK} is called distributed.scheduler._materialize_graph" in caplog.text
    assert f"{UPDATE}_hlg is called {UPDATE} today" in caplog.text


def test_another_format_and_missing_directories(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "not" / "there" / "profile"
    with pyspy_on_scheduler(path, "raw"):
        client.run_on_scheduler(burn_here)
    line = r"(?m)^(.+;)?burn_here \(.+test_ancestor\.py:\d+\)[^;]* \d+$"
    assert re.search(line, path.read_text())


def test_every_argument_at_once(client: Client, tmp_path: Path) -> None:
    with pyspy_on_scheduler(
        output=tmp_path / "profile.json",
        format="speedscope",
        rate=200,
        subprocesses=False,
        function=True,
        gil=True,
        threads=True,
        idle=False,
        nonblocking=True,
        native=False,
        extra_pyspy_args=["--full-filenames"],
        log_level="warn",
        client=client,
    ):
        client.run_on_scheduler(burn_here)
    frames = json.loads((tmp_path / "profile.json").read_text())["shared"]["frames"]
    lines = {frame["line"] for frame in frames if frame["name"] == "burn_here"}
    assert lines == {burn_here.__code__.co_firstlineno}
    assert any(frame["name"].startswith("thread (") for frame in frames)


def test_pyspys_log_is_logged_at_the_level_that_is_asked_for(
    client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pyspy_on_scheduler(tmp_path / "quiet.json"):
        client.run_on_scheduler(burn_here)
    assert "INFO  py_spy" not in caplog.text
    with caplog.at_level(logging.WARNING), pyspy_on_scheduler(tmp_path / "x", log_level="info"):
        client.run_on_scheduler(burn_here)
    assert "INFO  py_spy" in caplog.text


def child_for(program: str, dask_scheduler: Any = None) -> int:
    import subprocess
    import sys

    dask_scheduler.child = subprocess.Popen([sys.executable, "-c", program], stdout=-1)
    dask_scheduler.child.stdout.read(1)
    return dask_scheduler.child.pid  # type: ignore[no-any-return]


def end_child(dask_scheduler: Any = None) -> None:
    dask_scheduler.child.kill()
    dask_scheduler.child.communicate()
    del dask_scheduler.child


CHILD = """
def burn_in_child():
    print(end="x", flush=True)
    while True:
        pass

burn_in_child()
"""


def test_children_of_the_scheduler_are_sampled_but_not_our_watchdog(
    client: Client, tmp_path: Path
) -> None:
    pid = client.run_on_scheduler(child_for, CHILD)

    def stops() -> int:  # it never waits by itself: only py-spy stops it
        return psutil.Process(pid).num_ctx_switches().voluntary

    try:
        before = stops()
        with pyspy_on_scheduler(tmp_path / "profile.json"):
            client.run_on_scheduler(burn_here)
            wait_for(lambda: stops() > before + 5, "samples of the child")
    finally:
        client.run_on_scheduler(end_child)
    profiles = json.loads((tmp_path / "profile.json").read_text())["profiles"]
    processes = {profile["name"].partition(" Thread ")[0] for profile in profiles}
    assert f"Process {pid}" in processes
    assert len(processes) == 2  # the scheduler's and the child


def test_what_has_no_effect_is_told(caplog: pytest.LogCaptureFixture) -> None:
    viztrace_scheduler("trace.json", vdb=True, verbose=0)
    assert "vdb has no effect" in caplog.text


README = """
import dask
import distributed

from pytest_schedprof import pyspy_on_scheduler, viztrace_scheduler

client = distributed.Client()

df = dask.datasets.timeseries(
    start="2000-01-01",
    end="2000-01-14",
    partition_freq="1h",
    freq="60s",
)

with (
    pyspy_on_scheduler("pyspy.json"),
    # ^ Saves a speedscope profile to `pyspy.json` locally
    viztrace_scheduler(
        "viztracer.json", trace_sparse="distributed.Scheduler.update_graph_hlg"
    ),
    # ^ Saves a Chrome trace to `viztracer.json` locally
):
    df.set_index("id").mean().compute()
"""
"""The first example of the ancestor's README, with the import changed and nothing else."""

SINCE = {".mean()": ".mean(numeric_only=True)", "-01-14": "-01-02", "1h": "6h"}
"""What pandas asks for today, where it averaged numeric columns only; and fewer partitions."""

IN_TURN = """
import os

try:
    exec(README)
except TypeError as error:
    print(error)
os.mkdir("today")
os.chdir("today")
exec(TODAY)
"""


@pytest.mark.slow
def test_readme_first_example(tmp_path: Path) -> None:
    """Word for word, then as today's pandas has it, which refuses the former.

    Its error is told, and what was recorded is kept. The script is run with `-c`, as in a notebook:
    importing a script must not start processes.
    """
    today = README[README.index("df =") :]
    for word, replacement in SINCE.items():
        today = today.replace(word, replacement)
    script = f"README = {README!r}\nTODAY = {today!r}\n{IN_TURN}"
    process = python("-c", script, cwd=tmp_path)
    assert re.search("mean|str", process.stdout)
    assert f"{UPDATE}_hlg is called {UPDATE} today" in process.stderr
    for path in (tmp_path, tmp_path / "today"):
        assert json.loads((path / "pyspy.json").read_text())["profiles"]
    assert "traceEvents" in json.loads((tmp_path / "viztracer.json").read_text())
    assert names_in(tmp_path / "today" / "viztracer.json")["update_graph"] >= 1
