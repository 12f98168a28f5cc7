"""Tests of clusters with other releases of distributed, installed from the package index."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, wait
from packaging.version import Version
from support import QUICK, Project, command_line, descendants

from pytest_schedprof.agent import facts
from pytest_schedprof.clusters.contract import Cluster, ClusterSpec
from pytest_schedprof.clusters.environments import Interpreter, interpreter_for
from pytest_schedprof.clusters.session import start
from pytest_schedprof.control.control import Control, any_versions

pytestmark = pytest.mark.slow

HERE = metadata.version("distributed")
RELEASES = ("2025.5.1", "2024.8.2")
THERE, BEYOND = RELEASES if Version(HERE) >= Version("2025.5") else RELEASES[::-1]
"""A release that works with a client of this side, and one that does not."""

MAKING_S = 400.0


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def other(cache: Path) -> Interpreter:
    return interpreter_for(f"distributed=={THERE}", cache, MAKING_S)


@pytest.fixture(scope="module")
def cluster(other: Interpreter) -> Iterator[Cluster]:
    options = (("config.distributed.scheduler.work-stealing", "False"),)
    started = start(ClusterSpec("local", 2, 1, options, str(other.path)), timeout_s=200)
    yield started
    started.close()


def doubled(number: int) -> int:
    return 2 * number


def seen(dask_scheduler: Any) -> dict[str, Any]:
    import sys

    import dask

    inherited = dask.config.deserialize(__import__("os").environ["DASK_INTERNAL_INHERIT_CONFIG"])
    scheduler = inherited["distributed"]["scheduler"]
    return {"prefix": sys.prefix, "stealing": scheduler["work-stealing"], "others": len(scheduler)}


def test_only_what_was_asked_for_is_another_there(other: Interpreter, cluster: Cluster) -> None:
    assert other.versions == {"dask": THERE, "distributed": THERE}
    with Control(cluster.address) as control:
        versions = control.call(facts.describe)["versions"]
        on_workers = control.call_workers(facts.process)
    ours = facts.versions()
    assert {name for name in ours if ours[name] != versions.get(name)} == {"dask", "distributed"}
    assert len(on_workers) == 2


def test_functions_of_tests_are_found_there_and_settings_but_no_defaults(
    other: Interpreter, cluster: Cluster
) -> None:
    with any_versions(), Client(cluster.address) as client:
        assert client.gather(client.map(doubled, range(3))) == [0, 2, 4]
        settings = client.run_on_scheduler(seen)
    assert settings == {"prefix": str(other.path.parent.parent), "stealing": False, "others": 1}


def test_hollow_workers_think_with_the_state_machine_of_that_release(other: Interpreter) -> None:
    simulated = start(ClusterSpec("simulated", 20, interpreter=str(other.path)), timeout_s=200)
    try:
        with any_versions(), Client(simulated.address) as client:
            halves = client.map(doubled, range(100))
            done, _ = wait(client.map(doubled, halves), timeout=120)
            assert len(done) == 100
            assert len(client.nthreads()) == 20
    finally:
        simulated.close()


PROJECT = """
from pytest_schedprof.clusters.contract import ClusterSpec
from pytest_schedprof.clusters.session import start

@pytest.fixture(scope="session")
def schedprof_cluster():
    cluster = start(ClusterSpec("local", 2, interpreter={interpreter!r}), timeout_s=200)
    yield cluster
    cluster.close()

@pytest.mark.schedprof("calls(distributed.scheduler:SchedulerState._transition) <= 8")
@pytest.mark.schedprof("share(@comm) <= 99%")
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(200)))
"""


def test_backends_see_it(project: Project, other: Interpreter) -> None:
    project.run_test(
        PROJECT.format(interpreter=str(other.path)), "--schedprof=counts,cputime,pyspy"
    )
    result = project.result()
    assert (result.outcome, result.troubles) == ("passed", ())
    assert {backend.backend for backend in result.backends} == {"counts", "cputime", "pyspy"}
    assert result.environment.versions["distributed"] == THERE


def test_two_runs_are_proposed_where_no_turns_are_possible_and_they_work(
    project: Project, cache: Path
) -> None:
    beyond = interpreter_for(f"distributed=={BEYOND}", cache, MAKING_S)
    project.write("""
@pytest.mark.schedprof
@pytest.mark.parametrize("number", [1, 2])
def test_it(schedprof_scheduler, number):
    wait(schedprof_scheduler.client.map(inc, range(10), pure=False))
""")
    options = ("--schedprof=counts", "--schedprof-workers=2", "--schedprof-rounds=1")
    arguments = (*options, "test_it.py")
    result = project.run(*arguments, f"--schedprof-against={beyond.path}")
    result.assert_outcomes(errors=2)
    told = f"distributed is {HERE} where the tests run and {BEYOND} where the scheduler"
    result.stdout.fnmatch_lines(["schedprof: dask's client here does not get on with the *"])
    result.stdout.fnmatch_lines([f"*{told}*schedprof compare*"])
    assert not [child for child in descendants() if str(beyond.path) in command_line(child)]
    commands = [line for line in result.outlines if " -m pytest " in line]
    first, second, *again = commands
    assert again  # the second test is told the same, without another trial
    assert again == [first, second] * (len(again) // 2)  # in CI pytest's summary has it all again
    assert first == f"{beyond.path} -m pytest {' '.join(arguments)} --schedprof-save=the-other-side"
    assert second.startswith(sys.executable)
    for command in (first, second):
        done = subprocess.run(
            shlex.split(command),
            cwd=project.path,
            env={**os.environ, **QUICK},
            capture_output=True,
            text=True,
        )
        assert "2 passed" in done.stdout or "regressed against" in done.stdout, done.stdout
    assert "compared with the-other-side" in done.stdout
