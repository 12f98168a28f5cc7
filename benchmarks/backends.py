"""Measure the cost of each backend, the scatter of shares, and which counts are exact.

    python benchmarks/backends.py cost [--repeats N] [--tasks N] [--arm NAME ...]
    python benchmarks/backends.py scatter [--windows N] [--tasks N] [--rate HZ]
    python benchmarks/backends.py exact [--runs N] [--tasks N]

`cost` runs all backends in turns on one scheduler with hollow workers. `scatter` runs the samplers
in turns over identical windows: pyspy, cputime, and tachyon on Python 3.15. `exact` counts calls
and bytecodes per task of the state machine in several runs, each on a new cluster of real workers.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from statistics import mean, median, stdev
from typing import NamedTuple

from coverage import common_functions, scatter
from distributed import Client, wait
from figures import closing_line, interleaved
from overhead import collect_between_rounds, inc, load

from pytest_schedprof.agent import facts
from pytest_schedprof.agent.counts import HAS_MONITORING
from pytest_schedprof.agent.tachyon import FIRST_PYTHON
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.counts import CountsBackend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control
from pytest_schedprof.judge.shares import Shares, shares_of
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.profile import CostProfile, SampleProfile

ARMS: dict[str, tuple[str, dict[str, object]]] = {
    "pyspy": ("pyspy", {}),
    "cputime": ("cputime", {}),
    "cputime, 250 Hz": ("cputime", {}),
    "cputime, 1000 Hz": ("cputime", {}),
    "counts": ("counts", {}),
    "counts, all modules": ("counts", {"modules": "all"}),
    "counts, scheduling": ("counts", {"modules": "scheduling"}),
    "counts, two modules": ("counts", {"modules": "distributed.scheduler distributed.stealing"}),
    "counts, calls alone": ("counts", {"bytecodes": False}),
    "cprofile": ("cprofile", {"callgraph": False}),
    "viztracer": ("viztracer", {}),
    "memray": ("memray", {}),
}
SAMPLERS = ["pyspy", "cputime"]
if sys.version_info >= FIRST_PYTHON:
    ARMS = {**ARMS, "tachyon": ("tachyon", {}), "tachyon, native": ("tachyon", {"native": True})}
    SAMPLERS.append("tachyon")
NOTHING = "none"
RATE_HZ = 100
ASKED = {"counts": 4.0 if HAS_MONITORING else 10.0, "counts, calls alone": 3.0}
STATE_MACHINE = "distributed.scheduler:SchedulerState."
TOLERANCE = 0.001


class Round(NamedTuple):
    """One window of a backend."""

    cpu_us: float
    """CPU time of the scheduler per task."""
    around_s: float
    """Seconds to enter and to leave the window, without the work in it."""
    content: bytes


def rate_of(arm: str) -> float:
    """Return the rate that the arm's name has, else the usual one."""
    last = arm.rpartition(", ")[2]
    return float(last.removesuffix(" Hz")) if last.endswith(" Hz") else RATE_HZ


def backend_of(arm: str, rate_hz: float) -> list[Backend]:
    if arm == NOTHING:
        return []
    name, options = ARMS[arm]
    return [BackendRegistry().make(name, rate_hz=rate_hz, options=options)]


def measure(control: Control, client: Client, backends: list[Backend], tasks: int) -> Round:
    """Run a window of so many tasks, without full garbage collections in it."""
    control.call(collect_between_rounds)
    recorder = Recorder(control, backends, 60.0)
    start = time.perf_counter()
    with recorder.round():
        entered = time.perf_counter()
        wait(client.map(inc, range(tasks), pure=False), timeout=120)
        done = time.perf_counter()
    left = time.perf_counter()
    if recorder.errors or control.call(facts.wait_until_idle, 30.0):
        sys.exit("\n".join(map(str, recorder.errors)) or "the scheduler still knows tasks")
    (segment,) = recorder.rounds[0]
    contents = [raw.content for raw in segment.raw.values()]
    cpu_us = segment.facts.cpu_seconds / segment.facts.tasks * 1e6
    return Round(cpu_us, (entered - start) + (left - done), b"".join(contents))


def cost(arms: list[str], repeats: int, tasks: int) -> None:
    rounds: dict[str, list[Round]] = defaultdict(list)
    with load() as (control, client):
        for arm in interleaved([NOTHING, *arms], repeats + 1):
            rounds[arm].append(measure(control, client, backend_of(arm, rate_of(arm)), tasks))
    base = median(one_round.cpu_us for one_round in rounds[NOTHING][1:])  # the first round warms up
    print(f"{repeats} rounds of {tasks} tasks each, without a backend {base:.0f} us per task")
    print(f"{'backend':20s} {'CPU per task':>13s} {'enter + leave':>14s} {'artifact':>10s}")
    ratios = {}
    for arm in arms:
        kept = rounds[arm][1:]
        ratios[arm] = median(one_round.cpu_us for one_round in kept) / base
        around, size = median(r.around_s for r in kept), median(len(r.content) for r in kept)
        print(f"{arm:20s} {ratios[arm]:12.2f}x {around:12.3f} s {size / 1e6:7.2f} MB")
    for arm, most in ((arm, ASKED[arm]) for arm in arms if arm in ASKED):
        print(closing_line(f"{arm}, times the CPU per task without", ratios[arm], most))


def compare_scatter(windows: int, tasks: int, rate_hz: float) -> None:
    profiles: dict[str, list[SampleProfile]] = defaultdict(list)
    with load() as (control, client):
        for arm in interleaved(SAMPLERS, windows + 1):
            (backend,) = backend_of(arm, rate_hz)
            content = measure(control, client, [backend], tasks).content
            profile = backend.read(content, control.name_places)
            assert isinstance(profile, SampleProfile)
            profiles[arm].append(profile)
    medians = {arm: print_scatter(arm, by_function[1:]) for arm, by_function in profiles.items()}
    for arm in SAMPLERS[1:]:
        ratio = medians[arm] / medians["pyspy"]
        print(closing_line(f"scatter of {arm} as part of pyspy's", ratio, 1.0))


def print_scatter(arm: str, profiles: list[SampleProfile]) -> float:
    functions = common_functions(profiles)
    shares = [shares_of([[profile]], drift=0.0) for profile in profiles]
    ratios = sorted(scatter(shares, functions))
    samples = median(share.total.busy for share in shares)
    drift = max(0.0, sum(r * r for r in ratios) / len(ratios) - 1) ** 0.5 / samples**0.5
    print(
        f"{arm:8s} {len(profiles)} windows of {samples:.0f} busy samples, {len(functions)} "
        f"functions: scatter / binomial from {ratios[0]:.2f} to {ratios[-1]:.2f}, median "
        f"{median(ratios):.2f}; drift {drift:.3f}; two windows differ by up to "
        f"{smallest_change(shares, functions):.1%} of a share"
    )
    return median(ratios)


def smallest_change(shares: list[Shares], functions: list[str]) -> float:
    """Return what 95 % of pairs of identical windows differ by at most, in parts of the share.

    A change must be larger to be seen in one window of each side; the median of the functions.
    """
    values = [[share.of_function(name).value for share in shares] for name in functions]
    return median(1.96 * 2**0.5 * stdev(column) / mean(column) for column in values)


def exact(runs: int, tasks: int) -> None:
    figures: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(runs):
        for function, costs in counts_of_a_new_cluster(tasks).functions.items():
            for metric, amount in costs.items():
                figures[function, metric].append(amount / tasks)
    mine = {key: values for key, values in figures.items() if STATE_MACHINE in key[0]}
    moved = {
        key: values
        for key, values in mine.items()
        if len(values) < runs or max(values) - min(values) > TOLERANCE * max(values)
    }
    for (function, metric), values in sorted(moved.items()):
        print(f"{metric} of {function}: {', '.join(f'{value:.4f}' for value in values)}")
    print(f"{runs} runs of {tasks} independent tasks, {len(mine)} figures of the state machine")
    print(closing_line("figures that moved by more than 0.1 %", len(moved), 0))


def counts_of_a_new_cluster(tasks: int) -> CostProfile:
    """Counts of a cluster's second round; in the first one the task prefix is new."""
    backend = CountsBackend(rate_hz=100, options={})
    cluster = LocalProcesses(4, timeout_s=30)
    try:
        with Control(cluster.address) as control, Client(cluster.address) as client:
            rounds = [measure(control, client, [backend], tasks) for _ in range(2)]
            return backend.read(rounds[1].content, control.name_places)
    finally:
        cluster.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("cost", "scatter", "exact"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--windows", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--arm", action="append", choices=list(ARMS))
    parser.add_argument("--rate", type=float, default=250)
    arguments = parser.parse_args()
    if arguments.what == "cost":
        cost(arguments.arm or list(ARMS), arguments.repeats, arguments.tasks or 1000)
    elif arguments.what == "scatter":
        compare_scatter(arguments.windows, arguments.tasks or 3000, arguments.rate)
    else:
        exact(arguments.runs, arguments.tasks or 1000)


if __name__ == "__main__":
    main()
