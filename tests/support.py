"""Shared by the tests that run pytest inside pytest, or real clusters."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pytest_schedprof.clusters.child import PROGRAM
from pytest_schedprof.model.result import Result, Run
from pytest_schedprof.storage.records import read_record

INI = """
[pytest]
addopts = -p no:cacheprovider
filterwarnings = error
asyncio_default_fixture_loop_scope = function
"""

HEADER = """
import os, time
import pytest
from distributed import wait

def inc(x):
    return x + 1

def burn(scheduler, seconds=1.0):
    # Work that the scheduler itself does, so that its samples are the same on any machine.
    def burn_scheduler_cpu(dask_scheduler, seconds):
        import time
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass
    scheduler.client.run_on_scheduler(burn_scheduler_cpu, seconds=seconds)
"""

FROZEN = "FROZEN_S"
"""Stands in the command line of the watchdog, whose program is its argument."""

BURNED = "*:burn.<locals>.burn_scheduler_cpu"
"""Names what `burn` makes the scheduler do."""


class Project:
    """A user's project with the plugin installed, as pytester makes it."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        pytester.makeini(INI)

    def write(self, body: str, name: str = "test_it.py") -> None:
        """A test file; imports and `burn` are there already."""
        (self.path / name).write_text(HEADER + body)

    def run(self, *arguments: str, timeout_s: float = 60) -> pytest.RunResult:
        """pytest in a process of its own, which must leave no process behind."""
        before = own_processes()
        result = self.pytester.runpytest_subprocess(*arguments, timeout=timeout_s)
        assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
        wait_for(lambda: own_processes() <= before, "processes of the run to end")
        return result

    def run_test(self, body: str, *arguments: str) -> pytest.RunResult:
        """Write a test file and run it."""
        self.write(body)
        return self.run(*arguments)

    @property
    def run_directory(self) -> Path:
        """The one run that there is."""
        (directory,) = [path for path in (self.path / ".schedprof").iterdir() if path.is_dir()]
        return directory

    def run_record(self) -> Run:
        """run.json."""
        return read_record(self.run_directory / "run.json", Run)

    def results(self) -> dict[str, Result]:
        """Every result.json by the test's name, without its file."""
        paths = (self.run_directory / "tests").glob("*/result.json")
        results = [read_record(path, Result) for path in paths]
        return {result.test_id.partition("::")[2]: result for result in results}

    def result(self) -> Result:
        """The one result that there is."""
        (result,) = self.results().values()
        return result


def own_processes() -> set[int]:
    """Processes that this package starts: clusters, py-spy and its watchdog."""
    found = set()
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or ())
        ours = any(program in line for program in (PROGRAM, "py-spy record", FROZEN))
        if ours and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.add(process.pid)
    return found


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 15) -> None:
    """Poll until something holds; for what gives no sign of its own."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s for {what}"
        time.sleep(0.02)
