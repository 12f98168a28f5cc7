"""Measure what recording a workload costs the scheduler, and how large the file is.

    python benchmarks/recording.py [--pairs 12] [--tasks 4000]

Rounds with and without the recorder take turns on the scheduler of a simulated cluster. The figure
is the ratio of the CPU times of the scheduler's process, whose thread that packs and writes blocks
is included. Independent tasks are the cheapest for a scheduler, and so the dearest to record.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

from distributed import Client, wait
from figures import closing_line, interleaved, interval

from pytest_schedprof.clusters.simulated import SimulatedCluster
from pytest_schedprof.formats.workload import read_workload
from pytest_schedprof.record.fetching import record_workload

ASKED, ASKED_BYTES = 1.03, 40.0
WORKERS = 16


def inc(x: int) -> int:
    return x + 1


def quiet(dask_scheduler: Any = None) -> None:
    """Let garbage be collected between rounds only; runs in the scheduler."""
    gc.disable()
    gc.collect()


def cpu(dask_scheduler: Any = None) -> float:
    """Return the CPU time of the scheduler's process; runs there."""
    import time

    return time.process_time()


def run(client: Client, tasks: int, path: Path | None) -> float:
    """Run a round, and return its CPU time for each task."""
    client.run_on_scheduler(quiet)
    with nullcontext() if path is None else record_workload(client, path):
        before = client.run_on_scheduler(cpu)
        wait(client.map(inc, range(tasks), pure=False))
        after = client.run_on_scheduler(cpu)
    return float(after - before) / tasks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--tasks", type=int, default=4000)
    given = parser.parse_args()
    costs: dict[str, list[float]] = {"alone": [], "recorded": []}
    sizes = []
    cluster = SimulatedCluster(WORKERS, timeout_s=60)
    try:
        with tempfile.TemporaryDirectory() as directory, Client(cluster.address) as client:
            run(client, given.tasks, None)
            for number, arm in enumerate(interleaved(list(costs), given.pairs)):
                path = Path(directory) / f"{number}.schedprof" if arm == "recorded" else None
                costs[arm].append(run(client, given.tasks, path))
                if path is not None:
                    found = sum(1 for _ in read_workload(path.read_bytes()).tasks())
                    sizes.append(path.stat().st_size / found)
    finally:
        cluster.close()
    ratios = [b / a for a, b in zip(costs["alone"], costs["recorded"], strict=True)]
    low, high = interval(ratios)
    print(f"us of CPU a task: {1e6 * median(costs['alone']):.0f} alone, "
          f"{1e6 * median(costs['recorded']):.0f} recorded")  # fmt: skip
    print(f"ratio of each pair, median: {median(ratios):.3f} ({low:.3f} to {high:.3f})")
    print(
        closing_line("ratio of medians", median(costs["recorded"]) / median(costs["alone"]), ASKED)
    )
    print(closing_line("bytes a task", median(sizes), ASKED_BYTES))
    return 0


if __name__ == "__main__":
    sys.exit(main())
