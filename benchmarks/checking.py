"""Measure what a check of a scheduler costs: the shipped workloads, counted and not profiled.

    python benchmarks/checking.py [--repeats N] [--scale N] [--workers N]

Sessions of pytest in virtual time take turns. By CPU time, of the session and all processes that it
started, each runs alone; by the clock two processes of pytest-xdist share the tests.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from statistics import median

from figures import closing_line, interleaved

RATIO, SECONDS = 1.25, 18.0
ARMS = {"not profiled": "--schedprof=off", "counted": "--schedprof"}


def session(arm: str, directory: str, *arguments: str) -> tuple[float, float]:
    """Run the workloads; return the seconds of CPU time, and by the clock."""
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    command += ["--pyargs", "pytest_schedprof.workloads", "--schedprof-cluster=virtual"]
    start = time.perf_counter()
    process = subprocess.Popen(
        [*command, ARMS[arm], *arguments], cwd=directory, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"the session that was {arm} exited with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--scale", type=int, default=100)
    parser.add_argument("--workers", type=int, default=20)
    given = parser.parse_args()
    size = (f"--schedprof-scale={given.scale}", f"--schedprof-workers={given.workers}")
    cpu: dict[str, list[float]] = {arm: [] for arm in ARMS}
    clock: dict[str, list[float]] = {arm: [] for arm in ARMS}
    with tempfile.TemporaryDirectory() as directory:
        for arm in interleaved([*ARMS], given.repeats):
            cpu[arm].append(session(arm, directory, *size)[0])
            clock[arm].append(session(arm, directory, *size, "-n2")[1])
    for arm in ARMS:
        seconds = f"{median(cpu[arm]):.1f} s of CPU time, {median(clock[arm]):.1f} s on two cores"
        print(f"{arm}: {seconds}")
    ratio = median(cpu["counted"]) / median(cpu["not profiled"])
    print(closing_line("CPU time, counted by not profiled", ratio, RATIO))
    print(closing_line("counted, on two cores", median(clock["counted"]), SECONDS, " s"))


if __name__ == "__main__":
    main()
