"""Do what a stranger does, with no setting but `--schedprof`: save, compare, accept, compare again.

    python benchmarks/first_floor.py [--sessions 10]

Three tests run on the default cluster, with a random hash seed in each session, against a copy of
distributed. Sessions of unchanged code must pass. Then 20 % of a task's bytecodes are added to a
function of the copy: the first line of each failure must name it. Once that is accepted the
sessions must pass, and a second slowdown beside it must fail again.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import distributed

TESTS = """
from distributed import wait


def inc(x):
    return x + 1


def test_map(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(500), pure=False))


def test_chain(schedprof_scheduler):
    client = schedprof_scheduler.client
    future = client.submit(inc, 0, pure=False)
    for _ in range(100):
        future = client.submit(inc, future, pure=False)
    wait(future)


def test_fan(schedprof_scheduler):
    client = schedprof_scheduler.client
    first = client.map(inc, range(100), pure=False)
    wait([client.submit(sum, first[n : n + 10], pure=False) for n in range(90)])
"""

COUNT = 3

LOOP = "        for _ in range({times}):\n            pass\n"

FIRST = ("        p = len(ws.processing)\n", 240, "SchedulerState.check_idle_saturated")
"""The line of `scheduler.py` before a loop of so many turns, and the function that has it; it runs
twice for each task, which takes about 7,000 bytecodes."""

SECOND = ("        res = 0.0\n", 40, "SchedulerState._calc_occupancy")

TIMEOUT_S = 900


class Project:
    """A directory with three tests, and a copy of distributed that they import."""

    def __init__(self, path: Path) -> None:
        self._path = path
        (path / "test_three.py").write_text(TESTS)
        site = path / "site"
        shutil.copytree(Path(distributed.__file__).parent, site / "distributed")
        self._file = site / "distributed" / "scheduler.py"
        self._text = self._file.read_text()
        self._environ = {**os.environ, "PYTHONPATH": str(site), "PYTHONHASHSEED": "random"}

    def plant(self, *slowdowns: tuple[str, int, str]) -> None:
        """Slow functions of the copy down, and no others than these."""
        text = self._text
        for line, times, _ in slowdowns:
            assert text.count(line) == 1, line
            text = text.replace(line, line + LOOP.format(times=times))
        self._file.write_text(text)

    def run(self, module: str, *arguments: str) -> str:
        """Run a command and return what it prints."""
        command = [sys.executable, "-m", module, *arguments]
        done = subprocess.run(
            command, cwd=self._path, env=self._environ, capture_output=True, timeout=TIMEOUT_S
        )
        return done.stdout.decode()

    def session(self, option: str) -> str:
        return self.run("pytest", "--schedprof", option)


def passes(output: str) -> bool:
    return re.search(rf"^=+ {COUNT} passed in", output, re.MULTILINE) is not None


def names(output: str, function: str) -> bool:
    """Whether all tests fail, and the first line about each names the function."""
    lines = re.findall(r"^schedprof: regressed .*", output, re.MULTILINE)
    return len(lines) == COUNT and all(f"{function}: " in line for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=10, help="of unchanged code")
    sessions = parser.parse_args().sessions
    is_reached = True

    def report(fact: str, is_so: bool, output: str) -> None:
        nonlocal is_reached
        is_reached &= is_so
        print(f"{fact}: {'reached' if is_so else 'NOT reached'}", flush=True)
        if not is_so:
            print(output)

    with tempfile.TemporaryDirectory(prefix="first-floor-") as directory:
        project = Project(Path(directory))
        output = project.session("--schedprof-save=main")
        report("a baseline is saved", passes(output), output)
        for number in range(1, sessions + 1):
            output = project.session("--schedprof-compare=main")
            report(f"session {number} of unchanged code passes", passes(output), output)
        project.plant(FIRST)
        output = project.session("--schedprof-compare=main")
        report("a slowdown of 20 % is named in each first line", names(output, FIRST[2]), output)
        print(*re.findall(r"^schedprof: regressed .*", output, re.MULTILINE), sep="\n")
        project.run("pytest_schedprof", "accept", "--reason", "on purpose")
        output = project.session("--schedprof-compare=main")
        report("once it is accepted, all tests pass", passes(output), output)
        project.plant(FIRST, SECOND)
        output = project.session("--schedprof-compare=main")
        report("a second slowdown beside it is named", names(output, SECOND[2]), output)
    sys.exit(not is_reached)


if __name__ == "__main__":
    main()
