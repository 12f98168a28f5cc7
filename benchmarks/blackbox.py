"""Measure what a black box costs the scheduler: CPU time, and memory under full load.

    python benchmarks/blackbox.py [--pairs 20] [--tasks 4000]
    python benchmarks/blackbox.py --soak 3600

Rounds with and without the box take turns on the scheduler of a simulated cluster, which its
workers keep busy all the time. One figure is the ratio of the CPU times of the scheduler's process;
on a busy machine it scatters by more than what is asked. The other one is the part of the CPU time
that the box's own functions used in the same rounds, which other load hardly changes.

The soak loads two schedulers in turns, one with a box, and restarts all workers again and again.
What one has more memory than the other is the box's.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from distributed import Client, wait
from figures import closing_line, interleaved, interval

from pytest_schedprof.blackbox.asking import NAME
from pytest_schedprof.blackbox.box import BlackBox
from pytest_schedprof.blackbox.counting import counted
from pytest_schedprof.blackbox.fetching import dump
from pytest_schedprof.blackbox.metrics import Collector
from pytest_schedprof.blackbox.options import read_options
from pytest_schedprof.blackbox.packed import Request
from pytest_schedprof.clusters.simulated import SimulatedCluster

ASKED, ASKED_PART, ASKED_MB = 1.01, 1.0, 30.0
WORKERS = 16
ROUNDS_BETWEEN_RESTARTS = 3
PATIENCE_S = 300.0
"""Seconds that a round or a restart may take."""


def inc(x: int) -> int:
    return x + 1


async def begin(directory: str, dask_scheduler: Any = None) -> str:
    """Begin a black box that writes nothing by itself, and time it; runs in the scheduler."""
    options = {"directory": directory, "stall": "1h", "lag": "1h", "core": 1.0}
    box = BlackBox(dask_scheduler, read_options(options))
    spent: dict[str, float] = dict.fromkeys(("ticks", "beats", "messages"), 0.0)
    box.sampler.handler = timed(box.sampler.tick, spent, "ticks")
    box._look = timed(box._look, spent, "beats")  # type: ignore[method-assign]
    box.spent = spent  # type: ignore[attr-defined]
    box.begin()
    return box.no_samples


def timed(method: Callable[..., None], spent: dict[str, float], name: str) -> Callable[..., None]:
    """Return a method that adds its CPU time; reading the clock is part of it."""
    clock = time.thread_time

    def call(*args: Any) -> None:
        begun = clock()
        method(*args)
        spent[name] += clock() - begun

    return call


def end(dask_scheduler: Any = None) -> tuple[int, dict[str, float]]:
    """End it; return its samples, and the CPU seconds of its parts; runs in the scheduler."""
    box = dask_scheduler.extensions.pop(NAME)
    box.rotate()
    box.end()
    ring = list(box.ring.ended)
    received = sum(ring[-1].ended.received.values()) - sum(ring[0].begun.received.values())
    box.spent["messages"] = received * cost_of_counting()
    return sum(len(each.order) for each in ring), box.spent


CALLS = 20_000


def cost_of_counting() -> float:
    """Return the CPU seconds that counting adds to the call of a handler."""

    def handler(**keywords: Any) -> None:
        pass

    message = {"key": "x", "worker": "y", "nbytes": 1, "stimulus_id": "z"}
    took = []
    for call in (handler, counted([0], handler)):
        begun = time.thread_time()
        for _ in range(CALLS):
            call(**message)
        took.append((time.thread_time() - begun) / CALLS)
    return took[1] - took[0]


async def asked(dask_scheduler: Any = None) -> tuple[float, float]:
    """Return CPU seconds of packing the ring, and of its figures on the page; runs there."""
    box = dask_scheduler.extensions[NAME]
    begun = time.process_time()
    await asyncio.wrap_future(box.capture(Request("asked", "")))
    packed = time.process_time()
    list(Collector(box, "").collect())
    return packed - begun, time.process_time() - packed


def quiet(dask_scheduler: Any = None) -> None:
    """Let garbage be collected between rounds only; runs in the scheduler."""
    gc.disable()
    gc.collect()


def used(dask_scheduler: Any = None) -> tuple[float, float]:
    """Return CPU seconds and megabytes of the scheduler's process; runs there."""
    import psutil

    return time.process_time(), psutil.Process().memory_info().rss / 1e6


def cost(client: Client, tasks: int, directory: str, parts: list[float]) -> float:
    """Run a round, and return its CPU seconds for each task."""
    client.run_on_scheduler(quiet)
    if directory and (problem := client.run_on_scheduler(begin, directory)):
        sys.exit(problem)
    before, _ = client.run_on_scheduler(used)
    wait(client.map(inc, range(tasks), pure=False))
    after, _ = client.run_on_scheduler(used)
    if directory:
        pack, page = client.run_on_scheduler(asked)
        samples, spent = client.run_on_scheduler(end)
        parts.append(sum(spent.values()) / (after - before))
        told = " ".join(f"{name} {x / (after - before):.2%}" for name, x in spent.items())
        print(f"{told}; {samples} samples: {1e3 * pack:.0f} ms to pack, {1e3 * page:.0f} ms a page")
    return float(after - before) / tasks


@contextmanager
def loaded() -> Iterator[Client]:
    cluster = SimulatedCluster(WORKERS, timeout_s=60)
    try:
        with Client(cluster.address) as client:
            yield client
    finally:
        cluster.close()


def measure(pairs: int, tasks: int) -> None:
    costs: dict[str, list[float]] = {"alone": [], "boxed": []}
    parts: list[float] = []
    with tempfile.TemporaryDirectory() as directory, loaded() as client:
        cost(client, tasks, "", [])
        for arm in interleaved(list(costs), pairs):
            costs[arm].append(cost(client, tasks, directory if arm == "boxed" else "", parts))
    for arm, values in costs.items():
        print(f"{arm:6s} us of CPU a task: median {1e6 * median(values):.1f}")
    ratios = [b / a for a, b in zip(costs["alone"], costs["boxed"], strict=True)]
    low, high = interval(ratios)
    print(f"ratio of each pair, median: {median(ratios):.4f} ({low:.4f} to {high:.4f})")
    print(closing_line("ratio of medians", median(costs["boxed"]) / median(costs["alone"]), ASKED))
    print(closing_line("the box's own part of the CPU time", 100 * median(parts), ASKED_PART, " %"))


def soak(seconds: float, tasks: int) -> None:
    """Load both until the time is over, and compare them."""
    with tempfile.TemporaryDirectory() as directory, loaded() as alone, loaded() as boxed:
        clients = {"alone": alone, "boxed": boxed}
        for client in clients.values():
            _load(client, tasks)
        first = {name: client.run_on_scheduler(used) for name, client in clients.items()}
        if problem := boxed.run_on_scheduler(begin, directory):
            sys.exit(problem)
        rounds, most, until = 0, 0.0, time.monotonic() + seconds
        while time.monotonic() < until:
            for client in clients.values():
                _load(client, tasks)
            rounds += 1
            if rounds % ROUNDS_BETWEEN_RESTARTS == 0:
                for client in clients.values():
                    client.restart(timeout=PATIENCE_S)
                grown = _grown(clients, first)
                most = max(most, grown)
                print(f"{rounds} rounds: {grown:+.1f} MB", flush=True)
        place = dump(str(boxed.scheduler.address), Path(directory))  # type: ignore[union-attr]
        size = sum(each.stat().st_size for each in place.rglob("*") if each.is_file())
        most = max(most, _grown(clients, first))
        samples, spent = boxed.run_on_scheduler(end)
        last = {name: client.run_on_scheduler(used) for name, client in clients.items()}
    cpu = {name: (last[name][0] - first[name][0]) / rounds / tasks for name in clients}
    print(f"{seconds:g} s, {rounds} rounds of {tasks} tasks each, {samples} samples in the ring, "
          f"{size / 1e6:.2f} MB a run")  # fmt: skip
    print(f"us of CPU a task: {1e6 * cpu['alone']:.1f} alone, {1e6 * cpu['boxed']:.1f} boxed")
    part = sum(spent.values()) / (cpu["boxed"] * rounds * tasks)
    print(closing_line("the box's own part of the CPU time", 100 * part, ASKED_PART, " %"))
    print(closing_line("most memory above the other scheduler's", most, ASKED_MB, " MB"))


def _load(client: Client, tasks: int) -> None:
    """Run one round, and wait in the event loop of this client.

    `wait` uses that of the default client. An event of another one's thread may then be missed.
    """
    with client.as_current():
        wait(client.map(inc, range(tasks), pure=False), timeout=PATIENCE_S)


def _grown(clients: dict[str, Client], first: dict[str, tuple[float, float]]) -> float:
    """Return by how many megabytes the one with the box grew more than the other."""
    now = {name: client.run_on_scheduler(used)[1] for name, client in clients.items()}
    grown = {name: now[name] - first[name][1] for name in clients}
    return float(grown["boxed"] - grown["alone"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=4000)
    parser.add_argument("--soak", type=float, default=0.0, metavar="SECONDS")
    given = parser.parse_args()
    if given.soak:
        soak(given.soak, given.tasks)
    else:
        measure(given.pairs, given.tasks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
