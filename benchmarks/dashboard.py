"""Measure what dask's dashboard costs the scheduler: its CPU per task with it, and with a viewer.

    python benchmarks/dashboard.py [--pairs N] [--tasks N]

Three schedulers with hollow workers take turns: one without a dashboard, one that has it, and one
whose page `/status` is open. The viewer is in this process, so only the scheduler's part is
counted.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bokeh.client import pull_session
from evidence import cpu_per_task
from figures import interleaved, interval

from pytest_schedprof.clusters.under_test import SchedulerUnderTest

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from witness import opened

WORKERS = 16
OFF, ON, VIEWED = "off", "on", "viewed"


def schedulers(stack: ExitStack) -> dict[str, SchedulerUnderTest]:
    """Start a scheduler for each arm, and view the dashboard of one."""
    sessions = {}
    for arm in (OFF, ON, VIEWED):
        options = {} if arm == OFF else {"dashboard": "true"}
        sessions[arm] = stack.enter_context(opened("simulated", WORKERS, options))
    session = pull_session(url=sessions[VIEWED].client.dashboard_link)
    stack.callback(session.close)
    return sessions


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--tasks", type=int, default=3000)
    arguments = parser.parse_args()
    costs: dict[str, list[float]] = defaultdict(list)
    with ExitStack() as stack:
        arms = schedulers(stack)
        for arm in interleaved(list(arms), arguments.pairs + 1):
            costs[arm].append(cpu_per_task(arms[arm], (), arguments.tasks))
    for arm in (ON, VIEWED):
        pairs = zip(costs[arm][1:], costs[OFF][1:], strict=True)  # the first pair warms up
        ratios = [one / other for one, other in pairs]
        low, high = interval(ratios)
        print(f"{arm}: {median(ratios):.3f} ({low:.3f} to {high:.3f}) times the CPU per task")


if __name__ == "__main__":
    main()
