"""Compare a forecast for many workers, made from few, with what is measured there.

    python benchmarks/capacity.py [--small 100,200,500,1000,2000] [--large 10000] [--repeats 2]
    python benchmarks/capacity.py --cluster simulated --large 5000
    python benchmarks/capacity.py --shape tree_reduction

All sizes are measured in one run, up and down, so that other load on the machine meets all of them.
The laws are fitted to the small sizes only. The cost of a task is the scheduler's CPU time; of a
virtual cluster, the part of its process that is not of its hollow workers.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial

from figures import closing_line

from pytest_schedprof.analysis.carrying import law_of, least
from pytest_schedprof.analysis.laws import fit
from pytest_schedprof.measuring.capacity import DEFAULTS
from pytest_schedprof.measuring.ladder import measure
from pytest_schedprof.measuring.under_load import CLUSTERS
from pytest_schedprof.measuring.wanted import Wanted, Work
from pytest_schedprof.model.capacity import Point
from pytest_schedprof.workloads import WORKLOADS

ALLOWED = 0.15


def shaped(shape: str, tasks: int) -> Work:
    return lambda client: WORKLOADS[shape](client, tasks)


def costs_of(points: tuple[Point, ...], sizes: tuple[int, ...]) -> list[tuple[int, float]]:
    """The cost of a task at each of these sizes, of the least disturbed cluster."""
    return least([each for each in points if each.workers in sizes], lambda each: each.cost)


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
        workers=(*small, given.large),
        threads=1,
        tasks=given.tasks,
        repeats=given.repeats,
        options=DEFAULTS[given.cluster],
        kind=given.cluster,
        with_stalls=False,
        is_sized=False,
    )
    (found,) = measure(wanted, lambda text: print(text, file=sys.stderr, flush=True))
    for each in found.workers:
        rounds = " ".join(f"{1e6 * cost:.0f}" for cost in each.cpu)
        print(f"{each.workers} workers: {rounds} us a task, {each.memory / 1e9:.2f} GB")
    fitted = fit(costs_of(found.workers, small))
    forecast = fitted.forecast(given.large)
    ((_, measured),) = costs_of(found.workers, (given.large,))
    print(f"{given.shape} on {given.cluster} clusters: {law_of(fitted)}")
    print(f"{given.large} workers: forecast {1e6 * forecast.value:.0f} us", end=" ")
    print(f"({1e6 * forecast.low:.0f} to {1e6 * forecast.high:.0f}), ", end="")
    print(f"measured {1e6 * measured:.0f} us, ratio {forecast.value / measured:.3f}")
    apart = abs(forecast.value / measured - 1)
    print(closing_line("forecast apart from what is measured", apart, ALLOWED))
    sys.exit(apart > ALLOWED)


if __name__ == "__main__":
    main()
