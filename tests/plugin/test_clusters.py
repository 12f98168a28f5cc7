"""Clusters of the user's own, through the fixture that can be overridden."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Project, shares_in, wait_for


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A scheduler that somebody else started, as `dask scheduler` does."""
    file = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    with subprocess.Popen(
        [*command, "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(file)],
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
    ) as process:
        try:
            wait_for(lambda: file.exists() and file.read_text().endswith("}"), "the scheduler")
            yield json.loads(file.read_text())["address"]
            assert process.poll() is None, "somebody else's scheduler was ended"
        finally:
            process.terminate()


@pytest.mark.parametrize(
    "value",
    ["ADDRESS", "distributed.Client(ADDRESS, set_as_default=False)"],
    ids=["address", "client"],
)
@pytest.mark.parametrize("scope", ["function", "session"])
def test_fixture_of_the_user(project: Project, address: str, value: str, scope: str) -> None:
    result = project.run_test(
        f"""
import distributed

@pytest.fixture(scope={scope!r})
def schedprof_cluster():
    value = {value.replace("ADDRESS", repr(address))}
    yield value
    if not isinstance(value, str):
        value.close()

@pytest.mark.schedprof
@pytest.mark.parametrize("time", [1, 2])
def test_it(schedprof_scheduler, time):
    assert schedprof_scheduler.address == {address!r}
    burn(schedprof_scheduler, 0.3)
"""
    )
    result.assert_outcomes(passed=2)
    for record in project.results().values():
        assert record.cluster is not None
        assert record.cluster.kind == "attached"
        assert shares_in(record).busy_samples > 10


def test_address_on_the_command_line(project: Project, address: str) -> None:
    result = project.run_test(
        """
@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.3)
""",
        f"--schedprof-cluster={address}",
    )
    result.assert_outcomes(passed=1)


def test_cluster_with_its_scheduler_in_the_test_process_is_refused(project: Project) -> None:
    result = project.run_test(
        """
import distributed

@pytest.fixture
def schedprof_cluster():
    with distributed.LocalCluster(
        n_workers=0, processes=False, dashboard_address=":0", protocol="tcp"
    ) as cluster:
        yield cluster

@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    pass
"""
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["schedprof: the scheduler at * lives in the test's own process;*"])


def test_third_partys_backend_gets_options_artifacts_and_limits(project: Project) -> None:
    (project.path / "conftest.py").write_text(
        """
from array import array
from dataclasses import dataclass
from pytest_schedprof.backends.contract import RawProfile
from pytest_schedprof.backends.options import read_options
from pytest_schedprof.model.profile import SampleProfile, Thread

@dataclass(frozen=True)
class Options:
    loud: "bool" = False

class Recording:
    def stop(self, *, timeout_s):
        return RawProfile(b"x" * 80, ("a warning",))
    def abandon(self, *, timeout_s):
        pass

class Fixed:
    name, suffix, mode, drift, disturbs = "fixed", "fixed.txt", "", 0.0, False
    metrics = frozenset({"share", "self"})
    def __init__(self, *, rate_hz, options, patterns):
        self.settings = {"loud": read_options(Options, "fixed", options).loud}
    def start(self, control, *, timeout_s):
        return Recording()
    def read(self, content, namer):
        stack = ("distributed.scheduler:Scheduler.update_graph",)
        samples = array("q", [0] * len(content))
        return SampleProfile("fixed", "", (stack,), (Thread("main", samples),))

def pytest_schedprof_backends():
    return {"fixed": Fixed}
"""
    )
    result = project.run_test(
        """
@pytest.mark.schedprof("share(distributed.scheduler:Scheduler.update_graph) <= 50%",
                       options={"loud": True})
def test_it(schedprof_scheduler):
    pass
""",
        "--schedprof=fixed",
    )
    result.assert_outcomes(failed=1)
    (backend,) = project.result().backends
    assert backend.settings == {"loud": True}
    assert backend.artifacts == ("scheduler.fixed.txt",)
    assert backend.warnings == ("a warning",)
    result.stdout.fnmatch_lines(["*a warning*", "limits: 1 broken"])
