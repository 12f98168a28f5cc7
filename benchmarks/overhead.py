"""Measure what profiling costs the scheduler: its CPU per task, profiled and not.

    python benchmarks/overhead.py [--backend pyspy] [--pairs N] [--tasks N] [--rate HZ]

With hollow workers, the whole load is the scheduler's. Rounds with and without the backend take
turns on one scheduler. The scheduler itself counts CPU and tasks, from after the recording has
begun until before it is stopped, so the figure contains neither start nor stop. A round has one
full garbage collection or none, which costs up to a fifth of its CPU. Therefore collections run
between rounds only.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

from distributed import Client, wait
from figures import closing_line, interleaved, interval

from pytest_schedprof.agent import facts
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.own import SimulatedCluster
from pytest_schedprof.control.control import Control
from pytest_schedprof.measuring.recorder import Recorder

ASKED = {"pyspy": 1.03, "stalls": 1.10}
WORKERS = 16
WARM_UP_PAIRS = 1


def inc(x: int) -> int:
    return x + 1


@contextmanager
def load() -> Iterator[tuple[Control, Client]]:
    """A scheduler with hollow workers, the recorder's line to it and a client."""
    cluster = SimulatedCluster(WORKERS, timeout_s=30)
    try:
        with Control(cluster.address) as control, Client(cluster.address) as client:
            yield control, client
    finally:
        cluster.close()


def collect_between_rounds(dask_scheduler: Any = None) -> None:
    """Collect garbage, and stop automatic collections; runs in the scheduler."""
    gc.disable()
    gc.collect()


def cpu_per_task(
    control: Control, client: Client, backends: Sequence[Backend], tasks: int
) -> float:
    """Microseconds of the scheduler's CPU per task of one round."""
    control.call(collect_between_rounds)
    recorder = Recorder(control, backends, 30.0)
    with recorder.round():
        futures = client.map(inc, range(tasks), pure=False)
        wait(futures, timeout=60)
    del futures
    left = control.call(facts.wait_until_idle, 30.0)
    if recorder.errors or left:
        sys.exit("\n".join(map(str, recorder.errors)) or f"the scheduler still knows {left} tasks")
    segment = recorder.rounds[0][0].facts
    return segment.cpu_seconds / segment.tasks * 1e6


def measure(backend: str, pairs: int, tasks: int, rate_hz: float) -> dict[str, list[float]]:
    """CPU per task of each round."""
    arms: dict[str, list[Backend]] = {
        "unprofiled": [],
        "profiled": [BackendRegistry().make(backend, rate_hz=rate_hz, options={})],
    }
    costs: dict[str, list[float]] = {name: [] for name in arms}
    with load() as (control, client):
        for name in interleaved(list(arms), WARM_UP_PAIRS + pairs):
            costs[name].append(cpu_per_task(control, client, arms[name], tasks))
    return {name: values[WARM_UP_PAIRS:] for name, values in costs.items()}


def report(costs: dict[str, list[float]], most: float) -> None:
    for name, values in costs.items():
        print(
            f"{name:10s} {len(values)} rounds, CPU per task: median {median(values):.1f} us, "
            f"from {min(values):.1f} to {max(values):.1f}"
        )
    ratios = [a / b for a, b in zip(costs["profiled"], costs["unprofiled"], strict=True)]
    low, high = interval(ratios)
    print(f"median of paired ratios {median(ratios):.3f}, 95 % interval [{low:.3f}, {high:.3f}]")
    ratio = median(costs["profiled"]) / median(costs["unprofiled"])
    print(closing_line("ratio of the medians", ratio, most))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="pyspy")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=4000)
    parser.add_argument("--rate", type=float, default=100)
    arguments = parser.parse_args()
    costs = measure(arguments.backend, arguments.pairs, arguments.tasks, arguments.rate)
    report(costs, ASKED.get(arguments.backend, 1.03))


if __name__ == "__main__":
    main()
