"""Compare what happens in virtual time with what happens on eight real workers.

    python benchmarks/virtual_truth.py [--runs 5] [--only pairs]
    python benchmarks/virtual_truth.py --messages [--runs 5] [--only pairs]

The second form compares the messages and bytes of the scheduler with those on a simulated cluster.

Tasks sleep, and their results are bytes of a fixed size. So the makespan depends on what the
scheduler decides, and not on the processor. Real runs scatter, because a message may come a
little earlier or later, and so do virtual runs with different seeds: medians are compared.

What a real worker takes for a task besides its sleep is measured first, with independent tasks. It
depends on the machine and its load, and is not the same for each task: in virtual time it is drawn
between nothing and twice of that. Equal durations would end in the same instant, as they never do
in reality, and then more tasks would have moved from one worker to another.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable
from importlib import import_module
from statistics import median
from typing import Any, NamedTuple

import psutil
from distributed import Client, metrics, wait
from figures import closing_line
from virtual import cpu_s

from pytest_schedprof.agent import facts
from pytest_schedprof.agent.decisions import WORLD
from pytest_schedprof.backends.counts import CountsBackend
from pytest_schedprof.clusters.own import LocalProcesses, OwnCluster, SimulatedCluster
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.measuring.recorder import SETTLING_S, STEADY_S

WORKERS, TASKS, TOLERANCE = 8, 200, 0.1
NBYTES = 100_000
SECONDS = {"load": 0.2, "work": 0.2, "join": 0.1}


def load(number: int) -> bytes:
    time.sleep(SECONDS["load"])
    return bytes(NBYTES)


def work(*parts: bytes) -> bytes:
    time.sleep(SECONDS["work"])
    return bytes(NBYTES)


def join(*parts: bytes) -> bytes:
    time.sleep(SECONDS["join"])
    return bytes(NBYTES)


def independent(client: Client) -> Any:
    return client.map(load, range(TASKS), pure=False)


def pairs(client: Client) -> Any:
    """Load, work, and join in pairs until one is left."""
    level = client.map(work, client.map(load, range(128), pure=False), pure=False)
    while len(level) > 1:
        level = client.map(join, level[::2], level[1::2], pure=False)
    return level


def all_to_all(client: Client) -> Any:
    """Each of 24 outputs needs all of 24 inputs."""
    inputs = client.map(load, range(24), pure=False)
    return [client.submit(work, *inputs, pure=False) for _ in range(24)]


def neighbours(client: Client) -> Any:
    """Ten steps of a stencil on 32 cells."""
    cells = client.map(load, range(32), pure=False)
    for _ in range(10):
        cells = [
            client.submit(work, cells[at - 1], cell, cells[(at + 1) % 32], pure=False)
            for at, cell in enumerate(cells)
        ]
    return cells


def at_random(client: Client) -> Any:
    """Each of 300 tasks needs up to three earlier ones."""
    chance = random.Random(0)
    nodes = client.map(load, range(10), pure=False)
    for _ in range(300):
        function = chance.choice([work, join])
        nodes.append(client.submit(function, *chance.sample(nodes[-40:], 3), pure=False))
    return nodes


def stolen(client: Client) -> Any:
    """All inputs are on one worker, and others steal the work."""
    first = client.submit(load, 0, pure=False)
    wait(first)
    return [client.submit(work, first, pure=False) for _ in range(200)]


WORKLOADS: dict[str, Callable[[Client], Any]] = {
    workload.__name__: workload
    for workload in (independent, pairs, all_to_all, neighbours, at_random, stolen)
}


TRAFFIC = ("messages_in", "messages_out", "bytes_in", "bytes_out")

TRAFFIC_TOLERANCE = 0.05
"""In real time it depends on milliseconds which worker holds what, and so who is asked and told."""

ONE_BY_ONE = {"all_to_all", "neighbours", "at_random"}
"""Here inputs take longer than it takes to submit all else. No virtual time goes by while a test
submits; elsewhere tasks end meanwhile, of which the client is told each time it names them."""

NO_MANAGER = "config.distributed.scheduler.active-memory-manager.start"
"""It would drop copies every two seconds, and in real time a scheduler that is counted is slow."""

WEIGHING = 0.1
"""Part of the CPU time of the cluster's process that counting bytes may take, beside `counts`."""


class Run(NamedTuple):
    """What one run took, in seconds of the cluster's own time."""

    makespan: float
    transferred: float


def moved_really(dask_worker: Any) -> int:
    """Return the bytes that a worker has fetched since this was last asked."""
    log = dask_worker.transfer_incoming_log
    moved = sum(int(transfer["total"]) for transfer in log)
    log.clear()
    return moved


def moved_virtually(dask_scheduler: Any) -> int:
    """Return the bytes that all workers have fetched since this was last asked."""
    world = dask_scheduler.extensions[WORLD]
    moved = 0
    if world.journal.window is not None:
        moved = int(world.end()["figures"]["transferred"])
    world.begin()
    return moved


def moved(client: Client, kind: type[OwnCluster]) -> float:
    if kind is VirtualCluster:
        return float(client.run_on_scheduler(moved_virtually))
    return float(sum(client.run(moved_really).values()))


def timed(client: Client, kind: type[OwnCluster], graph: Callable[[Client], Any]) -> Run:
    moved(client, kind)
    start = metrics.time()  # virtual, if the client is
    futures = graph(client)
    wait(futures)
    return Run(metrics.time() - start, moved(client, kind))


def runs_on(kind: type[OwnCluster], options: dict[str, str], name: str, repeats: int) -> list[Run]:
    """Run a workload again and again, after a first time in which durations are not known."""
    cluster = kind(WORKERS, timeout_s=60, options=options)
    runs = []
    try:
        with Client(cluster.address) as client, cluster.open_line(30) as control:
            for _ in range(1 + repeats):
                runs.append(timed(client, kind, WORKLOADS[name]))
                assert control.call(facts.wait_until_idle, 30.0) == 0
    finally:
        cluster.close()
    return runs[1:]


def measured_overhead(repeats: int) -> float:
    """Return the seconds that a real worker takes for a task besides its sleep."""
    seconds = median(run.makespan for run in runs_on(LocalProcesses, {}, "independent", repeats))
    return max(0.0, seconds * WORKERS / TASKS - SECONDS["load"])


def compared(name: str, repeats: int, overhead: float) -> float:
    """Print both sides of a workload; return the larger of the two departures."""
    durations = [
        f"{prefix}: uniform({seconds:.4f}s, {seconds + 2 * overhead:.4f}s)"
        for prefix, seconds in SECONDS.items()
    ]
    traits = {"duration": "; ".join(["1ms", *durations]), "nbytes": f"{NBYTES}"}
    real = runs_on(LocalProcesses, {}, name, repeats)
    virtual = [
        run
        for seed in range(repeats)
        for run in runs_on(VirtualCluster, {**traits, "seed": f"{seed}"}, name, 1)
    ]
    worst = 0.0
    for figure, one, other in zip(
        Run._fields, zip(*real, strict=True), zip(*virtual, strict=True), strict=True
    ):
        ratio = median(other) / median(one) if median(one) else 1.0
        unit = 1e6 if figure == "transferred" else 1
        spread = " to ".join(f"{amount / unit:.2f}" for amount in (min(one), max(one)))
        drawn = " to ".join(f"{amount / unit:.2f}" for amount in (min(other), max(other)))
        print(f"{name:12} {figure:12} real {spread}, virtual {drawn}, ratio {ratio:.3f}")
        worst = max(worst, abs(ratio - 1))
    return worst


def weigh_by_the_clock(dask_scheduler: Any) -> None:
    """Time how long it takes to make bytes of what is counted."""
    counter = dask_scheduler.extensions[WORLD].journal.meter.__self__
    dumps, counter.spent_s = counter.dumps, 0.0

    def timed_dumps(message: Any) -> Any:
        start = time.thread_time()
        frames = dumps(message)
        counter.spent_s += time.thread_time() - start
        return frames

    counter.dumps = timed_dumps


def seconds_of_weighing(dask_scheduler: Any) -> float:
    return float(dask_scheduler.extensions[WORLD].journal.meter.__self__.spent_s)


def traffic(kind: type[OwnCluster], options: dict[str, str], name: str) -> dict[str, float]:
    """Return what the scheduler received and sent for each task, and the cost of weighing it."""
    backend = CountsBackend(rate_hz=100, options={})
    cluster = kind(WORKERS, timeout_s=60, options=options)
    try:
        with Client(cluster.address) as client, cluster.open_line(30) as control:
            recording = backend.start(control, timeout_s=30)
            before, spent = cpu_s(psutil.Process(cluster.pid)), 0.0
            if kind is VirtualCluster:
                client.run_on_scheduler(weigh_by_the_clock)
            # Functions of a module, as those of tests; a script's are pickled by value each time.
            futures = import_module("virtual_truth").WORKLOADS[name](client)
            wait(futures)
            tasks = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
            del futures
            assert control.call(facts.wait_until_idle, 30.0) == 0
            control.call(facts.settle, STEADY_S, SETTLING_S)
            if kind is VirtualCluster:
                spent = client.run_on_scheduler(seconds_of_weighing)
            whole_s = cpu_s(psutil.Process(cluster.pid)) - before
            content = recording.stop(timeout_s=60).content
    finally:
        cluster.close()
    whole = backend.read(content, control.name_places).whole
    return {**{metric: whole[metric] / tasks for metric in TRAFFIC}, "weighing": spent / whole_s}


def compared_traffic(name: str, repeats: int) -> tuple[float, float]:
    """Print both sides of a workload; return the largest departure, and the cost of weighing."""
    load = "uniform(3s, 4s)" if name in ONE_BY_ONE else "uniform(100ms, 200ms)"
    options = {
        "duration": f"uniform(100ms, 200ms); load: {load}",
        "nbytes": f"{NBYTES}",
        NO_MANAGER: "false",
    }
    simulated = [traffic(SimulatedCluster, options, name) for _ in range(repeats)]
    virtual = [
        traffic(VirtualCluster, {**options, "seed": f"{seed}"}, name) for seed in range(repeats)
    ]
    worst = 0.0
    for figure in TRAFFIC:
        one = median(run[figure] for run in simulated)
        other = median(run[figure] for run in virtual)
        print(
            f"{name:12} {figure:12} simulated {one:8.2f}, virtual {other:8.2f} per task", end=", "
        )
        print(f"ratio {other / one:.3f}", flush=True)
        worst = max(worst, abs(other / one - 1))
    weighing = median(run["weighing"] for run in virtual)
    print(f"{name:12} making bytes takes {weighing:.1%} of the CPU time")
    return worst, weighing


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", action="store_true", help="compare messages and bytes")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=WORKLOADS)
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED", "random") == "random":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    names = [arguments.only] if arguments.only else list(WORKLOADS)
    if arguments.messages:
        departures, costs = zip(
            *(compared_traffic(name, arguments.runs) for name in names), strict=True
        )
        print(closing_line("CPU time for making bytes", max(costs), WEIGHING))
        print(closing_line("largest departure of a median", max(departures), TRAFFIC_TOLERANCE))
        sys.exit(max(departures) > TRAFFIC_TOLERANCE or max(costs) > WEIGHING)
    overhead = measured_overhead(arguments.runs)
    print(f"a task takes {1e3 * overhead:.1f} ms besides its sleep")
    worst = max(compared(name, arguments.runs, overhead) for name in names)
    print(closing_line("largest departure of a median", worst, TOLERANCE))
    sys.exit(worst > TOLERANCE)


if __name__ == "__main__":
    main()
