"""Measure clusters in virtual time: how many tasks a second, how much memory, how true.

    python benchmarks/virtual.py [--workers 1000] [--tasks N]      # beside a simulated cluster
    python benchmarks/virtual.py --many 10000 [--tasks 67100]      # one large cluster
    python benchmarks/virtual.py --growth 100,1000,10000 --tasks 30000 --work tree
    python benchmarks/virtual.py --idle 4,1000,10000

The first form runs the same work in turns on a virtual and on a simulated cluster of so many
workers. It also says whether all virtual runs were the same. The second form prints the CPU time
and the memory of the cluster's process. The third form prints the CPU time of a task for each
number of workers, and the functions whose CPU time per task grows most with it (by cProfile). The
fourth form waits for a task of an hour.

The work is `tree`, independent tasks and sums of ten of them, or `array`, the graph of
`(x + x.T).sum(axis=0) - x.mean(axis=1)`. Of more than two independent tasks a thread, the scheduler
compares all idle workers for each of them. So time is CPU time of the cluster's process, except in
the first form.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import dask.array
import psutil
from distributed import Client, wait
from figures import closing_line

from pytest_schedprof.clusters.own import OwnCluster, SimulatedCluster
from pytest_schedprof.clusters.virtual import VirtualCluster

RATIO = 2.0
MANY = {10_000: (20.0, 0.6), 100_000: (180.0, 6.0)}
"""Seconds of CPU and gigabytes that are asked for."""
READY_S = 0.5
"""Seconds that are asked for until a cluster of a thousand workers is ready."""
HOUR = {4: 0.2, 1000: 1.0, 10_000: 5.0}
"""Seconds that are asked for, for an hour of virtual time with so many workers."""
MOST_FUNCTIONS = 12
OPTIONS = {"duration": "exponential(10ms)", "seed": "1"}


def inc(x: int) -> int:
    return x + 1


def tree(client: Client, tasks: int) -> None:
    """Run independent tasks, and one for each ten of them that needs these."""
    tasks = tasks * 10 // 11
    futures = client.map(inc, range(tasks), pure=False)
    groups = [client.submit(sum, futures[at : at + 10], pure=False) for at in range(0, tasks, 10)]
    wait(groups)


def array(client: Client, tasks: int) -> None:
    """Run the graph of an array: 6.71 tasks for each of its chunks."""
    side = 10 * round((tasks / 6.71) ** 0.5)
    x: Any = dask.array.ones((side, side), chunks=(10, 10)).map_blocks(abs, dtype=float)
    y = (x + x.T).sum(axis=0) - x.mean(axis=1)
    wait(client.persist(y, optimize_graph=False))


Work = Callable[[Client, int], None]
WORKS: dict[str, Work] = {"tree": tree, "array": array}


class Run(NamedTuple):
    """One cluster, and the work on it."""

    ready_s: float
    work_s: float
    cpu_s: float
    """CPU time of the work, in all processes of the cluster."""
    transitions: Any


def timed(kind: type[OwnCluster], workers: int, tasks: int, work: Work) -> Run:
    """Start a cluster, and run the work."""
    start = time.perf_counter()
    cluster = kind(workers, timeout_s=120, options=OPTIONS)
    try:
        with Client(cluster.address) as client:
            ready, before = time.perf_counter(), cpu_of_all(cluster)
            work(client, tasks)
            done, after = time.perf_counter(), cpu_of_all(cluster)
            transitions = client.run_on_scheduler(
                lambda dask_scheduler: dask_scheduler.transition_counter
            )
    finally:
        cluster.close()
    return Run(ready - start, done - ready, after - before, transitions)


def side_by_side(workers: int, tasks: int, repeats: int, work: Work) -> bool:
    """Compare both kinds of clusters in turns."""
    kinds: list[type[OwnCluster]] = [VirtualCluster, SimulatedCluster]
    runs = {kind: [timed(kind, workers, tasks, work) for _ in range(repeats)] for kind in kinds}
    rates = {kind: median(tasks / run.work_s for run in of_kind) for kind, of_kind in runs.items()}
    costs = {kind: median(run.cpu_s / tasks for run in of_kind) for kind, of_kind in runs.items()}
    for kind, of_kind in runs.items():
        ready = median(run.ready_s for run in of_kind)
        print(
            f"{kind.kind}: ready in {ready:.2f} s, {rates[kind]:.0f} tasks/s, "
            f"{1e6 * costs[kind]:.0f} us of CPU time a task in all processes"
        )
    print(f"by CPU time: {costs[SimulatedCluster] / costs[VirtualCluster]:.2f} times the tasks")
    ratio = rates[VirtualCluster] / rates[SimulatedCluster]
    seen = {run.transitions for run in runs[VirtualCluster]}
    print(f"virtual runs: transitions {sorted(seen)}: {'the same' if len(seen) == 1 else 'differ'}")
    print(closing_line("simulated cluster's rate against virtual", 1 / ratio, 1 / RATIO))
    ready_s = median(run.ready_s for run in runs[VirtualCluster])
    print(closing_line("seconds until a virtual cluster is ready", ready_s, READY_S))
    return ratio >= RATIO and ready_s <= READY_S


def cpu_of_all(cluster: OwnCluster) -> float:
    """Return the CPU time of a cluster's processes."""
    return sum(cpu_s(psutil.Process(child.process.pid)) for child in cluster._children)


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU time of a process."""
    return float(sum(process.cpu_times()[:2]))


def many(workers: int, tasks: int, work: Work) -> bool:
    """Measure one large cluster."""
    start = time.perf_counter()
    cluster = VirtualCluster(workers, timeout_s=600, options=OPTIONS)
    try:
        ready = time.perf_counter() - start
        process = psutil.Process(cluster.pid)
        started, empty = cpu_s(process), process.memory_info().rss / 1e9
        with Client(cluster.address) as client:
            before = cpu_s(process)
            work(client, tasks)
            spent = cpu_s(process) - before
            gigabytes = process.memory_info().rss / 1e9
    finally:
        cluster.close()
    print(f"{workers} workers ready in {ready:.2f} s ({started:.2f} s of CPU) with {empty:.2f} GB")
    print(f"{tasks} tasks: {spent:.1f} s of CPU, {1e6 * spent / tasks:.0f} us a task", end=", ")
    print(f"{gigabytes:.2f} GB")
    most_s, most_gb = MANY.get(workers, (float("inf"), float("inf")))
    print(f"required: {most_s:g} s and {most_gb:g} GB")
    return spent <= most_s and gigabytes <= most_gb


def idle(workers: int) -> None:
    """Wait for a task of an hour, during which all other workers do nothing."""
    cluster = VirtualCluster(workers, timeout_s=600, options={"duration": "1h"})
    try:
        with Client(cluster.address) as client:
            process = psutil.Process(cluster.pid)
            began, before = time.perf_counter(), cpu_s(process)
            wait(client.submit(inc, 1))
            seconds, spent = time.perf_counter() - began, cpu_s(process) - before
    finally:
        cluster.close()
    most_s = HOUR.get(workers, float("inf"))
    print(
        closing_line(f"an hour with {workers} workers, {spent:.3g} s of CPU", seconds, most_s, " s")
    )


def begin_profile(dask_scheduler: Any) -> None:
    """Profile the cluster's process from now on."""
    import cProfile

    dask_scheduler.schedprof_profile = cProfile.Profile()
    dask_scheduler.schedprof_profile.enable()


def end_profile(dask_scheduler: Any) -> dict[str, tuple[int, float]]:
    """Return the calls and the seconds of each function itself."""
    profile = vars(dask_scheduler).pop("schedprof_profile")
    profile.disable()
    profile.create_stats()
    costs: dict[str, tuple[int, float]] = {}
    for (path, line, name), (_, calls, own_s, *_) in profile.stats.items():
        place = "/".join(path.split("/")[-2:])
        costs[f"{place}:{line} {name}"] = calls, own_s
    return costs


def profiled(workers: int, tasks: int, work: Work) -> tuple[float, dict[str, tuple[int, float]]]:
    """Return the CPU time of a task without a profiler, and the functions with one."""
    spent, functions = 0.0, {}
    for is_profiled in (False, True):
        cluster = VirtualCluster(workers, timeout_s=600, options=OPTIONS)
        try:
            process = psutil.Process(cluster.pid)
            with Client(cluster.address) as client:
                if is_profiled:
                    client.run_on_scheduler(begin_profile)
                before = cpu_s(process)
                work(client, tasks)
                if is_profiled:
                    functions = client.run_on_scheduler(end_profile)
                else:
                    spent = cpu_s(process) - before
        finally:
            cluster.close()
    return spent, functions


def growth(sizes: list[int], tasks: int, work: Work) -> None:
    """Tell what a task costs with each number of workers, and what makes it grow."""
    runs = {workers: profiled(workers, tasks, work) for workers in sizes}
    for workers, (spent, _) in runs.items():
        print(f"{workers} workers: {1e6 * spent / tasks:.0f} us of CPU a task")
    (_, few), (_, most) = runs[sizes[0]], runs[sizes[-1]]
    grown = sorted(most, key=lambda name: few.get(name, (0, 0.0))[1] - most[name][1])
    print(f"functions that grow most from {sizes[0]} to {sizes[-1]} workers, by the profiler:")
    print("   us a task itself       calls a task   function")
    for name in grown[:MOST_FUNCTIONS]:
        (calls, own_s), (more_calls, more_s) = few.get(name, (0, 0.0)), most[name]
        print(f"{1e6 * own_s / tasks:9.2f} {1e6 * more_s / tasks:9.2f}", end=" ")
        print(f"{calls / tasks:9.2f} {more_calls / tasks:9.2f}   {name}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--many", type=int)
    parser.add_argument("--growth", help="numbers of workers, such as 100,1000,10000")
    parser.add_argument("--idle", help="numbers of workers")
    parser.add_argument("--work", choices=WORKS)
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED", "random") == "random":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if arguments.many:
        sys.exit(
            not many(arguments.many, arguments.tasks or 67_100, WORKS[arguments.work or "array"])
        )
    if arguments.idle:
        for workers in arguments.idle.split(","):
            idle(int(workers))
        return None
    if arguments.growth:
        sizes = [int(size) for size in arguments.growth.split(",")]
        return growth(sizes, arguments.tasks or 30_000, WORKS[arguments.work or "tree"])
    work = WORKS[arguments.work or "tree"]
    sys.exit(
        not side_by_side(arguments.workers, arguments.tasks or 11_000, arguments.repeats, work)
    )


if __name__ == "__main__":
    main()
