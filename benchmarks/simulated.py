"""Measure how fast a simulated cluster is ready, and how much it loads its scheduler.

    python benchmarks/simulated.py [--workers 1000] [--tasks N] [--repeats N] [--batch N]
    python benchmarks/simulated.py --many 10000

The scheduler's part of a core is its CPU time divided by wall time, from the submission of
independent tasks until all are done. It is also what of the tasks a second was reached that its CPU
time per task allows. The client submits batches, or the scheduler would wait for it to build all
tasks. `--many` starts one cluster of so many workers and adds up
the memory of its processes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import psutil
from distributed import Client, wait
from figures import closing_line

from pytest_schedprof.agent import facts
from pytest_schedprof.clusters.own import SimulatedCluster
from pytest_schedprof.control.control import Control
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.result import Segment

READY_S, TASKS_PER_S, CORE = 3.0, 3000.0, 0.95
MANY_READY_S, MANY_GB = 60.0, 6.0


def inc(x: int) -> int:
    return x + 1


@contextmanager
def cluster_of(workers: int) -> Iterator[tuple[SimulatedCluster, float]]:
    """A cluster, and the seconds until the scheduler knew all its workers."""
    start = time.perf_counter()
    cluster = SimulatedCluster(workers, timeout_s=300)
    try:
        with Control(cluster.address) as control:
            known = len(control.call(facts.describe)["workers"])
        if known != workers:
            sys.exit(f"{known} of {workers} workers are there")
        yield cluster, time.perf_counter() - start
    finally:
        cluster.close()


def throughput(
    cluster: SimulatedCluster, tasks: int, repeats: int, batch: int | None = None
) -> list[Segment]:
    """Segments of the same work, repeated; the first one, a warm-up, is left out."""
    with Control(cluster.address) as control, Client(cluster.address) as client:
        recorder = Recorder(control, [], 30.0)
        for _ in range(1 + repeats):
            with recorder.round():
                futures = client.map(inc, range(tasks), pure=False, batch_size=batch)
                wait(futures, timeout=300)
            del futures
            control.call(facts.wait_until_idle, 60.0)
    return [segment.facts for (segment,) in recorder.rounds[1:]]


def compare(workers: int, tasks: int, repeats: int, batch: int) -> None:
    with cluster_of(workers) as (cluster, ready):
        segments = throughput(cluster, tasks, repeats, batch)
    speeds = [segment.tasks / segment.seconds for segment in segments]
    cores = [segment.cpu_seconds / segment.seconds for segment in segments]
    costs = [segment.cpu_seconds / segment.tasks * 1e6 for segment in segments]
    print(f"{workers} workers, {repeats} times {tasks} tasks; scheduler CPU {median(costs):.0f} us")
    print(closing_line("seconds until they are ready", ready, READY_S, " s"))
    for title, value, least in (
        ("tasks per second, median", median(speeds), TASKS_PER_S),
        ("scheduler's part of a core, or tasks/s over what its CPU allows", median(cores), CORE),
    ):
        verdict = "reached" if value >= least else "NOT reached"
        print(f"{title}: {value:.4g}, asked: at least {least:g}: {verdict}")


def start_many(workers: int) -> None:
    with cluster_of(workers) as (cluster, ready):
        processes = [psutil.Process(child.process.pid) for child in cluster._children]
        gigabytes = sum(process.memory_info().rss for process in processes) / 1e9
        (segment,) = throughput(cluster, 20_000, 1)
    print(f"{workers} workers: 20000 tasks in {segment.seconds:.1f} s")
    print(closing_line("seconds until they are ready", ready, MANY_READY_S, " s"))
    print(closing_line("memory of all processes", gigabytes, MANY_GB, " GB"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--many", type=int)
    arguments = parser.parse_args()
    if arguments.many:
        start_many(arguments.many)
    else:
        compare(arguments.workers, arguments.tasks, arguments.repeats, arguments.batch)


if __name__ == "__main__":
    main()
