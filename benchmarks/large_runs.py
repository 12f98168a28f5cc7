"""How long commands take over runs of 2,000 tests, and what a large session comes to.

    python benchmarks/large_runs.py commands [--tests 2000]
    python benchmarks/large_runs.py session [--tests 2000]
    python benchmarks/large_runs.py tasks [--tasks 200000]

`commands` runs three tests by real profilers twice and keeps their records under so many names. It
times each command on these runs, and starts fifty at once. `session` runs so many marked tests,
and compares its last tenth with its second. `tasks` runs one test of so many tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from figures import closing_line

PYTEST = (sys.executable, "-Wignore", "-m", "pytest", "-q", "-p", "no:randomly", "--schedprof")
SCHEDPROF = (sys.executable, "-m", "pytest_schedprof")

SHOW = (*SCHEDPROF, "show", "test_tree[17]", "--run", "after")

GOALS = {
    "show of a test": (SHOW, 1.0),
    "show of a run": ((*SCHEDPROF, "show", "--run", "after"), 1.0),
    "open --write": ((*SCHEDPROF, "open", "--write", "--run", "after"), 20.0),
    "compare": ((*SCHEDPROF, "compare", "before", "after"), 10.0),
    "history": ((*SCHEDPROF, "history", "many"), 10.0),
}
"""Each command, and the seconds that it may take."""

MOST_MB = 300.0
AT_ONCE = 50
GROWTH_MB, GROWTH = 20.0, 1.3
"""What the memory of a session may grow by, and the factor by which its tests may slow down."""

TESTS = """
import pytest
from distributed import wait

def inc(x):
    return x + 1

@pytest.mark.schedprof("share(@comm) <= 90%", backend="cputime")
def test_map(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(1000), pure=False))

@pytest.mark.schedprof("share(@transitions) <= 90%", backend="pyspy")
def test_submit(schedprof_scheduler):
    wait([schedprof_scheduler.client.submit(inc, i, pure=False) for i in range(500)])

@pytest.mark.schedprof("calls(distributed.scheduler:SchedulerState._transition) <= 9")
def test_tree(schedprof_scheduler):
    layer = schedprof_scheduler.client.map(inc, range(200), pure=False)
    wait(layer)
"""

MANY = """
import os, time
import psutil, pytest
from distributed import wait

@pytest.fixture(autouse=True)
def noted():
    began = time.perf_counter()
    yield
    megabytes = psutil.Process().memory_info().rss / 1e6
    with open("noted", "a") as file:
        print(time.perf_counter() - began, megabytes, file=file)

@pytest.mark.parametrize("number", range({tests}))
@pytest.mark.schedprof(cluster="virtual")
def test_map(schedprof_scheduler, number):
    wait(schedprof_scheduler.client.map(abs, range(20), pure=False))
"""

ONE = """
import pytest
from distributed import wait

@pytest.mark.schedprof("share(@comm) <= 99%", backend="cputime", cluster="simulated", workers=20)
def test_map(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(abs, range({tasks}), pure=False))
"""


def run(command: Sequence[str], place: Path) -> tuple[float, float]:
    """Run a command that must succeed; return its seconds and megabytes."""
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 1), (command, status)
    return time.perf_counter() - began, usage.ru_maxrss * 1024 / 1e6


def repeated(run: Path, tests: int) -> Path:
    """Keep the records of a run under so many names, beside it."""
    place = run.parent.parent / "many" / run.name
    record = json.loads((run / "run.json").read_text())
    entries = record["tests"]
    record["tests"] = []
    for number in range(tests):
        entry = entries[number % len(entries)]
        name, directory = (f"{entry[key]}[{number}]" for key in ("test_id", "directory"))
        shutil.copytree(run / entry["directory"], place / directory)
        path = place / directory / "result.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"test_id": name}))
        record["tests"].append(entry | {"test_id": name, "directory": directory})
    (place / "run.json").write_text(json.dumps(record))
    return place


def commands(place: Path, tests: int) -> None:
    (place / "test_it.py").write_text(TESTS)
    run([*PYTEST, "--schedprof-save=main"], place)
    run([*PYTEST, "--schedprof-compare=main"], place)
    runs = [repeated(path, tests) for path in sorted((place / ".schedprof").glob("2*"))]
    for path, name in zip(runs, ("before", "after"), strict=True):
        (place / name).symlink_to(path)
    for name, (command, most_s) in GOALS.items():
        seconds, megabytes = run(command, place)
        print(closing_line(f"{name}, seconds", seconds, most_s))
        print(closing_line(f"{name}, megabytes", megabytes, MOST_MB), flush=True)
    began = time.perf_counter()
    processes = [
        subprocess.Popen(SHOW, cwd=place, stdout=subprocess.DEVNULL) for _ in range(AT_ONCE)
    ]
    failed = sum(process.wait() != 0 for process in processes)
    print(f"{AT_ONCE} at once took {time.perf_counter() - began:.3g} s")
    print(closing_line(f"of {AT_ONCE} at once, failed", failed, 0))


def session(place: Path, tests: int) -> None:
    (place / "test_it.py").write_text(MANY.format(tests=tests))
    seconds, _ = run(PYTEST, place)
    rows = [list(map(float, line.split())) for line in (place / "noted").read_text().splitlines()]
    assert len(rows) == tests
    tenth = tests // 10
    early, late = rows[tenth : 2 * tenth], rows[-tenth:]
    print(f"{tests} tests took {seconds:.0f} s")
    growth = median(row[1] for row in late) - median(row[1] for row in early)
    slower = median(row[0] for row in late) / median(row[0] for row in early)
    print(closing_line("memory of the last tenth over the second, megabytes", growth, GROWTH_MB))
    print(closing_line("time of a test in the last tenth over the second", slower, GROWTH))


def tasks(place: Path, count: int) -> None:
    (place / "test_it.py").write_text(ONE.format(tasks=count))
    seconds, megabytes = run([*PYTEST, "--schedprof-timeout=1000"], place)
    (path,) = place.glob(".schedprof/2*/tests/*/result.json")
    (backend,) = json.loads(path.read_text())["backends"]
    seen = sum(segment["tasks"] for segment in backend["window"]["segments"])
    print(f"{seen:,} tasks: {seconds:.0f} s, {megabytes:.0f} MB of the session")
    print(closing_line("tasks that were not seen", count - seen, 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=["commands", "session", "tasks"])
    parser.add_argument("--tests", type=int, default=2000)
    parser.add_argument("--tasks", type=int, default=200_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="large-runs-") as place:
        if arguments.part == "tasks":
            tasks(Path(place), arguments.tasks)
        else:
            {"commands": commands, "session": session}[arguments.part](Path(place), arguments.tests)


if __name__ == "__main__":
    main()
