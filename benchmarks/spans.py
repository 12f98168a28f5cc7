"""Measure what telling spans apart costs the backend `counts`: the scheduler's CPU per task.

    python benchmarks/spans.py [--pairs N] [--tasks N]

With hollow workers, the whole load is the scheduler's. Rounds with and without the option `spans`
take turns on one scheduler; both count calls and bytecodes.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from statistics import median

from figures import interleaved, interval
from overhead import WARM_UP_PAIRS, cpu_per_task, load

from pytest_schedprof.backends.registry import BackendRegistry

ARMS = {"together": {}, "apart": {"spans": True}}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--tasks", type=int, default=1000)
    arguments = parser.parse_args()
    make = BackendRegistry().make
    backends = {arm: make("counts", rate_hz=100, options=o) for arm, o in ARMS.items()}
    costs: dict[str, list[float]] = defaultdict(list)
    with load() as (control, client):
        for arm in interleaved(list(ARMS), arguments.pairs + WARM_UP_PAIRS):
            costs[arm].append(cpu_per_task(control, client, [backends[arm]], arguments.tasks))
    pairs = zip(costs["apart"][WARM_UP_PAIRS:], costs["together"][WARM_UP_PAIRS:], strict=True)
    ratios = [apart / together for apart, together in pairs]
    low, high = interval(ratios)
    print(f"paired: {median(ratios):.3f} ({low:.3f} to {high:.3f}) times the CPU without spans")


if __name__ == "__main__":
    main()
