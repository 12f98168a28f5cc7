"""Measure how long clusters take to start, forked by a server that has imported distributed or not.

    python benchmarks/starting.py [--repeats N] [--tasks N]

Both ways are taken in turns. Then one scheduler of each kind runs the same work in turns: what a
task costs it must not depend on how it was started. Last come whole sessions of pytest: the time
from their first fixture to the body of their first test, and in turns with them a process that
only imports distributed, which the server of each session does too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from distributed import Client, wait
from figures import closing_line, interleaved, interval

from pytest_schedprof.clusters.child import Child
from pytest_schedprof.clusters.own import LocalProcesses, OwnCluster, SimulatedCluster
from pytest_schedprof.clusters.virtual import VirtualCluster

ASKED_RATIO = 0.5
"""Not of the simulated cluster, whose workers take most of its time to join."""
ASKED_COST = 1.02
ASKED_FIRST_S = {"local": 0.6, "virtual": 0.3}
TIMEOUT_S = 120.0

SESSION = {
    "pytest.ini": "[pytest]\n",
    "conftest.py": """
import time

begins = []


def pytest_fixture_setup():
    begins.append(time.perf_counter())


def pytest_pyfunc_call():
    print(f"\\nseconds: {time.perf_counter() - begins[0]}")
""",
    "test_first.py": """
import distributed


def test_first(schedprof_scheduler):
    schedprof_scheduler.client.submit(sum, [1, 2]).result()
""",
}
"""Files of a session that prints how long its first test took to begin."""

CLUSTERS: dict[str, Callable[[], OwnCluster]] = {
    "local, 2 workers": lambda: LocalProcesses(2, timeout_s=TIMEOUT_S),
    "simulated, 1000 workers": lambda: SimulatedCluster(1000, timeout_s=TIMEOUT_S),
    "virtual, 1000 workers": lambda: VirtualCluster(1000, timeout_s=TIMEOUT_S),
}
WAYS = ["afresh", "forked"]


@contextmanager
def way(name: str) -> Iterator[None]:
    """Start the processes of clusters in one of two ways."""
    forked = Child._forked
    if name == "afresh":
        Child._forked = lambda self: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Child._forked = forked  # type: ignore[method-assign]


def seconds_to_start(make: Callable[[], OwnCluster], name: str) -> float:
    with way(name):
        start = time.perf_counter()
        cluster = make()
        seconds = time.perf_counter() - start
    cluster.close()
    return seconds


def cpu_of(pid: int) -> float:
    """CPU seconds of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def costs(tasks: int, repeats: int) -> dict[str, list[float]]:
    """CPU seconds per task of a scheduler of each kind, in turns."""
    costs: dict[str, list[float]] = {name: [] for name in WAYS}
    with ExitStack() as stack:
        clusters, clients = {}, {}
        for name in WAYS:
            with way(name):
                clusters[name] = SimulatedCluster(100, timeout_s=TIMEOUT_S)
            stack.callback(clusters[name].close)
            clients[name] = stack.enter_context(Client(clusters[name].address))
        for number, name in enumerate(interleaved(WAYS, repeats + 1)):
            before = cpu_of(clusters[name].pid)
            wait(clients[name].map(str, range(tasks), pure=False))
            if number >= len(WAYS):  # the first round of each warms up
                costs[name].append((cpu_of(clusters[name].pid) - before) / tasks)
    return costs


def seconds_to_first_body(kind: str, directory: Path) -> float:
    """Run a session; return the seconds from its first fixture to the body of its test."""
    options = ["-q", "-s", "-p", "no:cacheprovider", "--schedprof", f"--schedprof-cluster={kind}"]
    command = [sys.executable, "-m", "pytest", *options]
    output = subprocess.check_output(command, cwd=directory, text=True, timeout=TIMEOUT_S)
    line = next(line for line in output.splitlines() if line.startswith("seconds: "))
    return float(line.split()[1])


def seconds_to_import() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import distributed"], check=True, timeout=TIMEOUT_S)
    return time.perf_counter() - start


def report_first_windows(repeats: int) -> None:
    """Print how long the first test of a session takes to begin, for each kind of cluster."""
    kinds = list(ASKED_FIRST_S)
    seconds: dict[str, list[float]] = {name: [] for name in [*kinds, "import"]}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for file, text in SESSION.items():
            (directory / file).write_text(text)
        for arm in interleaved(list(seconds), repeats):
            is_session = arm in ASKED_FIRST_S
            figure = seconds_to_first_body(arm, directory) if is_session else seconds_to_import()
            seconds[arm].append(figure)
    imported = median(seconds["import"])
    print(f"a process that imports distributed: {imported:.2f} s")
    for kind in kinds:
        middle = median(seconds[kind])
        title = f"first window of a session, {kind} ({middle / imported:.1f} imports)"
        print(closing_line(title, middle, ASKED_FIRST_S[kind], " s"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--tasks", type=int, default=3000)
    options = parser.parse_args()
    for kind, make in CLUSTERS.items():
        seconds_to_start(make, "forked")  # starts the server
        seconds: dict[str, list[float]] = {name: [] for name in WAYS}
        for name in interleaved(WAYS, options.repeats):
            seconds[name].append(seconds_to_start(make, name))
        for name in WAYS:
            low, high = interval(seconds[name])
            print(f"{kind}, {name}: {median(seconds[name]):.2f} s ({low:.2f} to {high:.2f})")
        ratio = median(seconds["forked"]) / median(seconds["afresh"])
        most = 1.0 if kind.startswith("simulated") else ASKED_RATIO
        print(closing_line(f"{kind}, forked by afresh", ratio, most))
    cost = costs(options.tasks, options.repeats)
    for name in WAYS:
        middle, low, high = (1e6 * figure for figure in (median(cost[name]), *interval(cost[name])))
        print(f"cost of a task, {name}: {middle:.0f} us ({low:.0f} to {high:.0f})")
    ratio = median(cost["forked"]) / median(cost["afresh"])
    print(closing_line("cost of a task, forked by afresh", ratio, ASKED_COST))
    report_first_windows(options.repeats)


if __name__ == "__main__":
    main()
