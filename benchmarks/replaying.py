"""Measure how true a replay is to the work that was recorded.

    python benchmarks/replaying.py [--shapes NAME ...] [--size 400] [--workers 8]

Shapes of work run on a simulated cluster and are recorded there. Each is replayed on a virtual
cluster and on a simulated one. The figures are ratios to the recorded run: transitions per task,
the makespan from the first graph to the last end, and bytes that were sent between workers. The
same work is also done once more on a simulated cluster (`again`): so much it differs by itself.
`as_completed` submits a task whenever one ends, `chained` one that needs its result, and in `churn`
workers join and leave.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from distributed import Client, as_completed, wait
from figures import closing_line

from pytest_schedprof.clusters.own import OwnCluster, SimulatedCluster
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.formats.workload import read_file
from pytest_schedprof.model.workload import Workload
from pytest_schedprof.replay.fetching import record_workload
from pytest_schedprof.replay.replaying import arrive, leave
from pytest_schedprof.workloads import WORKLOADS, replay

OPTIONS = {"duration": "exponential(300ms)", "nbytes": "uniform(100kB, 2MB)"}
TRANSITIONS, MAKESPAN, BYTES = 0.02, 0.10, 0.10
SHAPES = ("many_tiny_tasks", "tree_reduction", "all_to_all", "anomaly_mean", "seen_again")


@dataclass(frozen=True)
class Figures:
    """What a run took."""

    transitions: float
    makespan: float
    sent: float


def inc(x: object) -> int:
    return 1


def in_a_loop(client: Client, size: int) -> None:
    """Submit a task whenever one ends, as a search for parameters does."""
    _one_for_each(client, size, lambda ended, number: number)


def chained(client: Client, size: int) -> None:
    """Submit a task that needs its result whenever one ends."""
    _one_for_each(client, size, lambda ended, number: ended)


def _one_for_each(client: Client, size: int, argument: Callable[[Any, int], Any]) -> None:
    submitted = 32
    running = as_completed(client.map(inc, range(submitted), pure=False))
    for ended in running:
        if submitted < size:
            running.add(client.submit(inc, argument(ended, submitted), pure=False))
            submitted += 1


def churn(client: Client, size: int) -> None:
    """Let workers join and leave while there is work."""
    futures = client.map(inc, range(size), pure=False)
    workers = client.nthreads()
    first, second, third = sorted(workers)[:3]
    client.sync(asyncio.sleep, 1.0)  # else they join before the tasks arrive in virtual time
    client.run(arrive, [("90", 2), ("91", 2)], workers=[first])
    client.sync(asyncio.sleep, 1.0)
    client.run(leave, workers=[second])
    client.sync(asyncio.sleep, 1.0)
    client.retire_workers([third])
    wait(futures)


WORK: dict[str, Callable[[Client, int], object]] = {
    **{name: WORKLOADS[name] for name in SHAPES},
    "as_completed": in_a_loop,
    "chained": chained,
    "churn": churn,
}


def begin(dask_scheduler: Any = None) -> None:
    """Count bytes that workers fetch from now on; runs on the scheduler."""
    from distributed.diagnostics.plugin import SchedulerPlugin

    class Sent(SchedulerPlugin):
        """Sums up the sizes of results when another worker has them too."""

        name = "sent"
        transitions, nbytes = dask_scheduler.transition_counter, 0

        def transition(self, key: Any, start: str, finish: str, *args: Any, **more: Any) -> None:
            pass

    plugin = Sent()
    real = dask_scheduler.stream_handlers["add-keys"]

    def add_keys(**message: Any) -> Any:
        tasks = dask_scheduler.tasks
        plugin.nbytes += sum(tasks[key].nbytes for key in message["keys"] if key in tasks)
        return real(**message)

    dask_scheduler.stream_handlers["add-keys"] = add_keys
    dask_scheduler.add_plugin(plugin, name="sent")


async def end(dask_scheduler: Any = None) -> tuple[int, int]:
    """Return how many transitions there were when all is forgotten, and the bytes."""
    while dask_scheduler.tasks:
        await asyncio.sleep(0.01)
    plugin = dask_scheduler.plugins["sent"]
    return dask_scheduler.transition_counter - plugin.transitions, plugin.nbytes


def makespan(workload: Workload) -> float:
    """Return the time from the first graph to the end of the last task."""
    return max(result.time for result in workload.results.values()) - workload.graphs[0].time


def run(
    kind: type[OwnCluster],
    workers: int,
    options: dict[str, str],
    work: Callable[[Client], object],
    path: Path,
) -> Figures:
    """Run work on a cluster and record it: its own file tells how long it took."""
    cluster = kind(workers, timeout_s=120, options=options)
    try:
        with Client(cluster.address) as client:
            client.run_on_scheduler(begin)
            with record_workload(client, path):
                work(client)
                transitions, sent = client.run_on_scheduler(end)
    finally:
        cluster.close()
    workload = read_file(str(path))
    return Figures(transitions / len(workload.results), makespan(workload), sent)


def ratios(replayed: Figures, real: Figures) -> tuple[float, float, float]:
    """Return how many times as large each figure is; bytes of a run that sent none may be `inf`."""
    sent = replayed.sent / real.sent if real.sent else inf if replayed.sent else 1.0
    return (
        replayed.transitions / real.transitions,
        replayed.makespan / real.makespan,
        sent,
    )


def compared(
    work: Callable[[Client, int], object], size: int, workers: int, place: Path
) -> Iterator[tuple[str, tuple[float, float, float]]]:
    """Record work, and yield the ratios of the same once more, and of its replays."""
    path = place / "recorded"
    real = run(SimulatedCluster, workers, OPTIONS, lambda client: work(client, size), path)
    other = place / "other"
    took = run(SimulatedCluster, workers, OPTIONS, lambda client: work(client, size), other)
    yield "again", ratios(took, real)
    for kind in (VirtualCluster, SimulatedCluster):
        options, again = {"workload": str(path)}, place / kind.kind
        took = run(kind, workers, options, lambda client: replay(client, path), again)
        yield kind.kind, ratios(took, real)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="+", default=list(WORK), choices=list(WORK))
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--workers", type=int, default=8)
    arguments = parser.parse_args()
    rows_of: dict[str, list[tuple[float, float, float]]] = {
        "again": [],
        "virtual": [],
        "simulated": [],
    }
    print(f"{'workload':16} {'cluster':10} {'transitions':>11} {'makespan':>9} {'bytes':>6}")
    for name in arguments.shapes:
        with tempfile.TemporaryDirectory() as directory:
            for kind, row in compared(
                WORK[name], arguments.size, arguments.workers, Path(directory)
            ):
                rows_of[kind].append(row)
                print(f"{name:16} {kind:10} {row[0]:11.3f} {row[1]:9.3f} {row[2]:6.3f}", flush=True)
    for kind_name, rows in rows_of.items():
        for figure, most, column in zip(
            ("transitions", "makespan", "bytes"),
            (TRANSITIONS, MAKESPAN, BYTES),
            zip(*rows, strict=True),
            strict=True,
        ):
            worst = max(abs(ratio - 1) for ratio in column)
            print(closing_line(f"{kind_name}: {figure}, worst departure", worst, most))
            print(f"  median {median(column):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
