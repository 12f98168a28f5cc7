"""Measure what all kinds of evidence cost the scheduler: its CPU per task with and without them.

    python benchmarks/evidence.py [--pairs N] [--tasks N]

With hollow workers, the whole load is the scheduler's. Rounds with and without evidence take
turns on one scheduler. Its CPU is counted only while the body runs, because a profile covers only
that. What the kinds gather afterwards is discarded.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from distributed import wait
from figures import closing_line, interleaved, interval
from overhead import collect_between_rounds, inc

from pytest_schedprof.agent import facts
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.evidence import KINDS
from pytest_schedprof.evidence.contract import EvidenceRegistry, Kind, ObservedTest
from pytest_schedprof.evidence.gathering import Gathering
from pytest_schedprof.measuring.recorder import Recorder

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from witness import opened

ASKED = 1.05
WORKERS = 16
ARMS = {"without": (), "with": EvidenceRegistry().kinds(KINDS)}


def cpu_per_task(scheduler: SchedulerUnderTest, kinds: Sequence[type[Kind]], tasks: int) -> float:
    """Microseconds of the scheduler's CPU for each task of one round."""
    control = scheduler.control
    control.call(collect_between_rounds)
    test = ObservedTest("benchmark", known_scheduler=scheduler)
    gathering, recorder = Gathering(kinds, test), Recorder(control, [], 30.0)
    with gathering.around(), recorder.round():
        wait(scheduler.client.map(inc, range(tasks), pure=False), timeout=60)
    gathering.keep(None, ())
    left = control.call(facts.wait_until_idle, 30.0)
    if recorder.errors or left:
        sys.exit("\n".join(map(str, recorder.errors)) or f"the scheduler still knows {left} tasks")
    segment = recorder.rounds[0][0].facts
    return segment.cpu_seconds / segment.tasks * 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--tasks", type=int, default=3000)
    arguments = parser.parse_args()
    costs: dict[str, list[float]] = defaultdict(list)
    with opened("simulated", WORKERS) as scheduler:
        for arm in interleaved(list(ARMS), arguments.pairs + 1):
            costs[arm].append(cpu_per_task(scheduler, ARMS[arm], arguments.tasks))
    with_, without = costs["with"][1:], costs["without"][1:]  # the first pair warms up
    ratios = [a / b for a, b in zip(with_, without, strict=True)]
    low, high = interval(ratios)
    print(f"{median(without):.0f} us of CPU per task without, {median(with_):.0f} with all kinds")
    print(f"paired: {median(ratios):.3f} ({low:.3f} to {high:.3f})")
    print(closing_line("times the CPU per task without", median(with_) / median(without), ASKED))


if __name__ == "__main__":
    main()
