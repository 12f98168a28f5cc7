"""How exact instructions per task are, between sessions on clusters in virtual time.

    python benchmarks/instructions.py [--null 15] [--planted 3]

Each run is a session of pytest with a process of its own for the scheduler, and an environment of
another size. Each pair of unchanged runs is compared, and each planted run with each unchanged one:
15 unchanged runs make 105 pairs, and 3 planted ones 45 with them. A run takes 20 to 30 s of CPU
time. The planted change sums up numbers in C for each task that is finished.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import combinations, product
from pathlib import Path
from statistics import median
from typing import NamedTuple

from figures import closing_line

from pytest_schedprof.judge.compare import compare
from pytest_schedprof.model.comparison import Change, Outcome
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import by_test
from pytest_schedprof.store.records import read_record

TIMEOUT_S = 900
TASKS = 300
NUMBERS = 105
"""How many numbers the planted change sums up for each task."""

TEST = """
import pytest
from distributed import wait

def inc(x):
    return x + 1

def plant(numbers, dask_scheduler=None):
    before, chosen = dask_scheduler.stimulus_task_finished, range(numbers)

    def stimulus_task_finished(*args, **keywords):
        sum(chosen)
        return before(*args, **keywords)

    dask_scheduler.stimulus_task_finished = stimulus_task_finished

@pytest.mark.schedprof(
    backend="instructions", options={{"by": "valgrind"}}, cluster="virtual", workers=20
)
def test_it(schedprof_scheduler):
    client = schedprof_scheduler.client
    if {numbers}:
        client.run_on_scheduler(plant, {numbers})
    with schedprof_scheduler.measure():
        wait(client.map(inc, range({tasks}), pure=False))
"""


class Run(NamedTuple):
    """One session."""

    result: Result
    instructions: float
    """Per task."""
    cpu_s: float
    wall_s: float


def run(place: Path, number: int, numbers: int) -> Run:
    """Run a session, and read its record."""
    directory = place / f"{number}"
    (place / "test_it.py").write_text(TEST.format(numbers=numbers, tasks=TASKS))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "SIZE": "x" * (37 * number)}
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [*command, f"--schedprof-dir={directory}", "--schedprof-timeout=120"],
        cwd=place,
        env=environment,
        stdout=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        check=True,
    )
    after, wall_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    (record,) = directory.glob("*/tests/*/result.json")
    result: Result = read_record(record, Result)
    (measured,) = result.backends
    assert measured.costs is not None
    return Run(
        result,
        measured.costs.whole["instructions"] / measured.window.tasks,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        wall_s,
    )


def regressed(before: Run, after: Run) -> Sequence[Change]:
    """Return what regressed between two runs."""
    (comparison,) = compare(by_test([before.result]), by_test([after.result])).comparisons
    return comparison.of(Outcome.REGRESSED)


def main() -> None:
    """Run and compare all sessions."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--null", type=int, default=15)
    parser.add_argument("--planted", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="schedprof-instructions-") as directory:
        place = Path(directory)
        (place / "pytest.ini").write_text("[pytest]\naddopts = -p no:asyncio\n")
        unchanged = [_told(run(place, n, 0)) for n in range(arguments.null)]
        planted = [_told(run(place, arguments.null + n, NUMBERS)) for n in range(arguments.planted)]
    report(unchanged, planted)


def _told(run: Run) -> Run:
    print(
        f"{run.instructions:,.1f} instructions per task; {run.cpu_s:.1f} s of CPU time, "
        f"{run.wall_s:.1f} s by the clock",
        flush=True,
    )
    return run


def report(unchanged: Sequence[Run], planted: Sequence[Run]) -> None:
    """Print the figures."""
    middle = median(run.instructions for run in unchanged)
    spread = [abs(run.instructions / middle - 1) for run in unchanged]
    pairs = list(combinations(unchanged, 2))
    alarms = [changes for changes in (regressed(*pair) for pair in pairs) if changes]
    for changes in alarms[:5]:
        print("false alarm:", changes[0])
    print(closing_line("largest distance from the median", 100 * max(spread), 0.2, " %"))
    print(closing_line(f"false alarms in {len(pairs)} pairs", len(alarms), 0))
    if planted:
        rise = 100 * (median(run.instructions for run in planted) / middle - 1)
        mixed = [regressed(*pair) for pair in product(unchanged, planted)]
        missed = sum(1 for changes in mixed if not changes)
        print(f"planted: {rise:.2f} %, found in {mixed[0][0].subject if mixed[0] else 'nothing'}")
        print(closing_line(f"missed in {len(mixed)} pairs", missed, 0))
    seconds = median(run.cpu_s for run in [*unchanged, *planted])
    print(closing_line("CPU time of a session, median", seconds, 30, " s"))


if __name__ == "__main__":
    main()
