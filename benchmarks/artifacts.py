"""Measure what a test leaves in its directory: traces plain, compressed, and by --schedprof-keep.

    python benchmarks/artifacts.py [--tasks N]

Each row is a session with one test of N tasks under the backends cputime, counts and viztracer,
whose buffer is full from about 2,000 tasks on. Figures are bytes, the ratio to the first row, and
the CPU time of all processes of the session.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

TEST = """
import pytest
from distributed import wait

def inc(x):
    return x + 1

@pytest.mark.schedprof
def test_tasks(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range({tasks}), pure=False))
"""

SESSION = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio"]
BACKENDS = "--schedprof=cputime,counts,viztracer"

ROWS = {
    "traces as viztracer writes them": ["--schedprof-option=viztracer.format=json"],
    "compressed, as by default": [],
    "--schedprof-keep=10MB": ["--schedprof-keep=10MB"],
    "--schedprof-keep=0": ["--schedprof-keep=0"],
}


def left(arguments: list[str], tasks: int) -> dict[str, int]:
    """Run a session; return the sizes of the files that its test left."""
    with tempfile.TemporaryDirectory(prefix="schedprof-bench-") as place:
        Path(place, "test_it.py").write_text(TEST.format(tasks=tasks))
        subprocess.run(
            [*SESSION, BACKENDS, *arguments],
            cwd=place,
            stdout=subprocess.DEVNULL,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        files = Path(place).glob(".schedprof/2*/tests/*/*")
        return {file.name: file.stat().st_size for file in files}


def cpu_seconds() -> float:
    """Return the CPU time of all sessions so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the table, and the files of the session with everything compressed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=2000)
    options = parser.parse_args()
    first = 0
    for name, arguments in ROWS.items():
        before = cpu_seconds()
        files = left(arguments, options.tasks)
        total = sum(files.values())
        first = first or total
        seconds = cpu_seconds() - before
        print(f"{name:32} {total:>12,} B  {total / first:7.2%}  {seconds:5.0f} s of CPU")
        for file, size in sorted(files.items(), key=lambda item: -item[1]):
            print(f"    {file:38} {size:>12,} B")


if __name__ == "__main__":
    main()
