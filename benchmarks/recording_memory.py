"""Measure how much memory a recorder takes in the scheduler, and whether that grows.

    python benchmarks/recording_memory.py [--rounds 40] [--tasks 2500]

Two schedulers of simulated clusters run the same rounds in turns; the workload of one is recorded.
Before each look at the resident memory garbage is collected, and what the allocator holds back is
given to the system. The client releases the results of a round at its end, all but one, which it
keeps to the end of the recording.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from distributed import Client, Future, wait
from figures import closing_line

from pytest_schedprof.clusters.own import SimulatedCluster
from pytest_schedprof.formats.workload import read_file
from pytest_schedprof.replay.fetching import record_workload

WORKERS = 16
ASKED_MB, ASKED_GROWTH_MB = 30.0, 3.0


def inc(x: int) -> int:
    return x + 1


def resident(dask_scheduler: Any = None) -> float:
    """Return the resident memory in MB, without what is of no use; runs in the scheduler."""
    import ctypes

    import psutil

    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return float(psutil.Process().memory_info().rss / 1e6)


def known(dask_scheduler: Any = None) -> int:
    """Return how many tasks the recorder knows; runs in the scheduler."""
    return len(dask_scheduler.extensions["schedprof-record"].known.numbers)


class Side:
    """A scheduler with or without a recorder."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.kept: list[Future[Any]] = []
        self.memory: list[float] = []

    def round(self, tasks: int) -> None:
        """Run tasks, keep one of them, and note the memory."""
        futures = self.client.map(inc, range(tasks), pure=False)
        with self.client.as_current():
            wait(futures)
        self.kept.append(futures[-1])
        del futures
        self.memory.append(self.client.run_on_scheduler(resident))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--tasks", type=int, default=2500)
    arguments = parser.parse_args()
    with ExitStack() as opened:
        path = Path(opened.enter_context(tempfile.TemporaryDirectory())) / "work.schedprof"
        clusters = [opened.enter_context(closing(SimulatedCluster(WORKERS, timeout_s=60)))
                    for _ in range(2)]  # fmt: skip
        alone, recorded = (
            Side(opened.enter_context(Client(cluster.address, set_as_default=False)))
            for cluster in clusters
        )
        for side in (alone, recorded):
            side.round(arguments.tasks)  # the first tasks of a scheduler bring modules and tables
        with record_workload(recorded.client, path):
            for number in range(arguments.rounds):
                for side in (alone, recorded) if number % 2 else (recorded, alone):
                    side.round(arguments.tasks)
            left = recorded.client.run_on_scheduler(known)
        tasks = sum(1 for _ in read_file(str(path)).tasks())
    report(alone, recorded, tasks, left)
    return 0


def report(alone: Side, recorded: Side, tasks: int, left: int) -> None:
    """Print what the recorder adds, and the growth in the second half of the recording."""
    added = [b - recorded.memory[0] - (a - alone.memory[0])
             for a, b in zip(alone.memory, recorded.memory, strict=True)]  # fmt: skip
    for number in range(0, len(added), max(1, len(added) // 10)):
        print(f"round {number}: {alone.memory[number]:.1f} MB alone, "
              f"{recorded.memory[number]:.1f} recorded, {added[number]:+.1f}")  # fmt: skip
    print(f"{tasks:,} tasks recorded; the recorder knows {left:,} of them at the end")
    quarter = max(1, len(added) // 4)
    before, after = added[-2 * quarter : -quarter], added[-quarter:]
    growth = (sum(after) - sum(before)) / quarter
    print(closing_line("most memory that the recorder adds", max(added), ASKED_MB, " MB"))
    print(closing_line("growth from the third quarter to the last", growth, ASKED_GROWTH_MB, " MB"))


if __name__ == "__main__":
    sys.exit(main())
