"""Compare a forecast for many workers, made from few, with what is measured there.

    python benchmarks/capacity.py [--small 100,200,500,1000,2000] [--large 10000] [--repeats 2]
    python benchmarks/capacity.py --cluster simulated --large 5000
    python benchmarks/capacity.py --shape tree_reduction

The large size is measured before and after the small ones, which are measured up and down, so that
other load on the machine meets all of them. What the forecast uses comes from the small clusters.
The cost of a task is CPU time of the scheduler; of a virtual cluster, the part of its process that
is not of its hollow workers.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from functools import partial
from operator import attrgetter
from statistics import median

from figures import closing_line

from pytest_schedprof.analysis.carrying import cost_law, law_of, least
from pytest_schedprof.measuring.capacity import DEFAULTS
from pytest_schedprof.measuring.ladder import measure
from pytest_schedprof.measuring.under_load import CLUSTERS
from pytest_schedprof.measuring.wanted import Wanted, Work
from pytest_schedprof.model.capacity import Sweeps
from pytest_schedprof.workloads import WORKLOADS

ALLOWED = 0.15


def shaped(shape: str, tasks: int) -> Work:
    return lambda client: WORKLOADS[shape](client, tasks)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def tell_sweeps(sweeps: Sweeps | None) -> None:
    """Print what is done for each worker, and how long that takes with how many."""
    if sweeps is None or not sweeps.bytecodes:
        print("no function does more for a task the more workers there are")
        return
    print(f"{sweeps.bytecodes:.2f} bytecodes a task and worker, in {', '.join(sweeps.functions)}")
    for each in sweeps.looks:
        low, middle, high = (1e9 * of(each.seconds) for of in (min, median, max))
        print(f"{each.workers} workers: a bytecode takes {middle:.1f} ns ({low:.1f} to {high:.1f})")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", default="100,200,500,1000,2000")
    parser.add_argument("--large", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument("--shape", default="many_tiny_tasks", choices=WORKLOADS)
    parser.add_argument("--cluster", default="virtual", choices=CLUSTERS)
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED", "random") == "random":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    small = tuple(int(each) for each in given.small.split(","))
    wanted = Wanted(
        work=partial(shaped, given.shape),
        workers=small,
        threads=1,
        tasks=given.tasks,
        repeats=given.repeats,
        sizes=(given.large,),
        options=DEFAULTS[given.cluster],
        kind=given.cluster,
        with_stalls=False,
        is_sized=False,
    )
    large = replace(wanted, workers=(given.large,), sizes=(), repeats=1)
    (first,), (found,), (last,) = (measure(each, tell) for each in (large, wanted, large))
    large_points = (*first.workers, *last.workers)
    for each in (*found.workers, *large_points):
        rounds = " ".join(f"{1e6 * cost:.0f}" for cost in each.cpu)
        print(f"{each.workers} workers: {rounds} us a task, {each.memory / 1e9:.2f} GB")
    fitted = cost_law(found.workers, found.sweeps)
    tell_sweeps(found.sweeps)
    forecast = fitted.forecast(given.large)
    ((_, measured),) = least(large_points, attrgetter("cost"))
    print(f"{given.shape} on {given.cluster} clusters: {law_of(fitted)}")
    print(f"{given.large} workers: forecast {1e6 * forecast.value:.0f} us", end=" ")
    print(f"({1e6 * forecast.low:.0f} to {1e6 * forecast.high:.0f}), ", end="")
    print(f"measured {1e6 * measured:.0f} us, ratio {forecast.value / measured:.3f}")
    apart = abs(forecast.value / measured - 1)
    print(closing_line("forecast apart from what is measured", apart, ALLOWED))
    sys.exit(apart > ALLOWED)


if __name__ == "__main__":
    main()
