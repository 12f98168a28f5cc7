"""Measure clusters in virtual time: how many tasks a second, how much memory, how true.

    python benchmarks/virtual.py [--workers 1000] [--tasks N]      # beside a simulated cluster
    python benchmarks/virtual.py --many 10000 [--tasks 67100]      # one large cluster

The first form runs the same work (independent tasks of a millisecond, then a reduction) in turns on
a virtual and on a simulated cluster of so many workers. It also says whether all virtual runs were
the same. The second form prints the CPU time and the memory of the cluster's process.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from statistics import median
from typing import Any

import psutil
from distributed import Client, wait
from figures import closing_line

from pytest_schedprof.clusters.own import OwnCluster
from pytest_schedprof.clusters.simulated import SimulatedCluster
from pytest_schedprof.clusters.virtual import VirtualCluster

RATIO, MANY_CPU_S, MANY_GB = 2.0, 20.0, 0.6
OPTIONS = {"duration": "exponential(10ms)", "seed": "1"}


def inc(x: int) -> int:
    return x + 1


def work(client: Client, tasks: int) -> None:
    """Run independent tasks, and one that needs them all in groups of ten."""
    futures = client.map(inc, range(tasks), pure=False)
    groups = [client.submit(sum, futures[at : at + 10], pure=False) for at in range(0, tasks, 10)]
    wait(groups)


def timed(kind: type[OwnCluster], workers: int, tasks: int) -> tuple[float, float, Any]:
    """Return the seconds of the start and of the work, and how many transitions it took."""
    begun = time.perf_counter()
    cluster = kind(workers, timeout_s=120, options=OPTIONS)
    try:
        with Client(cluster.address) as client:
            ready = time.perf_counter()
            work(client, tasks)
            done = time.perf_counter()
            transitions = client.run_on_scheduler(
                lambda dask_scheduler: dask_scheduler.transition_counter
            )
    finally:
        cluster.close()
    return ready - begun, done - ready, transitions


def side_by_side(workers: int, tasks: int, repeats: int) -> bool:
    """Compare both kinds of clusters in turns."""
    kinds: list[type[OwnCluster]] = [VirtualCluster, SimulatedCluster]
    runs = {kind: [timed(kind, workers, tasks) for _ in range(repeats)] for kind in kinds}
    rates = {
        kind: [1.1 * tasks / seconds for _, seconds, _ in found] for kind, found in runs.items()
    }
    for kind, found in runs.items():
        ready = median(each[0] for each in found)
        print(f"{kind.kind}: ready in {ready:.2f} s, {median(rates[kind]):.0f} tasks/s")
    ratio = median(rates[VirtualCluster]) / median(rates[SimulatedCluster])
    seen = {transitions for _, _, transitions in runs[VirtualCluster]}
    print(f"virtual runs: transitions {sorted(seen)}: {'the same' if len(seen) == 1 else 'differ'}")
    print(closing_line("simulated cluster's rate against virtual", 1 / ratio, 1 / RATIO))
    return ratio >= RATIO


def many(workers: int, tasks: int) -> bool:
    """Measure one large cluster."""
    begun = time.perf_counter()
    cluster = VirtualCluster(workers, timeout_s=600, options=OPTIONS)
    try:
        ready = time.perf_counter() - begun
        process = psutil.Process(cluster.pid)
        with Client(cluster.address) as client:
            before = sum(process.cpu_times()[:2])
            work(client, tasks * 10 // 11)
            spent = sum(process.cpu_times()[:2]) - before
            gigabytes = process.memory_info().rss / 1e9
    finally:
        cluster.close()
    print(f"{workers} workers ready in {ready:.1f} s; {tasks} tasks: {spent:.1f} s of CPU,")
    print(f"{1e6 * spent / tasks:.0f} us a task, {gigabytes:.2f} GB")
    return spent <= MANY_CPU_S and gigabytes <= MANY_GB


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--many", type=int)
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED", "random") == "random":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if given.many:
        sys.exit(not many(given.many, given.tasks or 67_100))
    sys.exit(not side_by_side(given.workers, given.tasks or 10_000, given.repeats))


if __name__ == "__main__":
    main()
