"""A program for interpreters of other releases: records work, or replays what was recorded.

It prints how many transitions that took, how many virtual seconds, and how many tasks there were.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from at_work import at_work
from distributed import Client, wait

from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.replay.fetching import record_workload
from pytest_schedprof.workloads import WORKLOADS, replay

OPTIONS = {"duration": "uniform(100ms, 500ms)", "nbytes": "uniform(100kB, 2MB)"}
SHAPES = ("tree_reduction", "all_to_all", "annotated_tasks")
SIZE = 50


def one(x: object) -> int:
    """Be a task, or make an actor."""
    return 1


def begin(dask_scheduler: Any = None) -> int:
    """Begin a window; return how many transitions there were."""
    dask_scheduler.extensions["schedprof-virtual"].begin()
    return int(dask_scheduler.transition_counter)


async def end(dask_scheduler: Any = None) -> tuple[int, float]:
    """Wait until all tasks are forgotten; return the transitions and the makespan."""
    while dask_scheduler.tasks:
        await asyncio.sleep(0.01)
    figures = dask_scheduler.extensions["schedprof-virtual"].end()["figures"]
    return int(dask_scheduler.transition_counter), figures["makespan"]


def work(client: Client) -> int:
    """Run actors and shapes of work one after the other."""
    actors = client.map(one, range(SIZE), actor=True)
    wait(client.map(one, actors, pure=False))
    del actors  # before the recording ends, so that a replay releases them as late
    for shape in SHAPES:
        WORKLOADS[shape](client, SIZE)
    return 0


def main(what: str, path: str) -> None:
    """Record or replay a file."""
    is_replay = what == "replay"
    options = {"workload": path} if is_replay else OPTIONS
    with at_work(VirtualCluster, **options) as client:
        before = client.run_on_scheduler(begin)
        if is_replay:
            tasks = replay(client, path)
        else:
            with record_workload(client, path):
                tasks = work(client)
        after, makespan = client.run_on_scheduler(end)
    sys.stdout.write(json.dumps([after - before, makespan, tasks]))


if __name__ == "__main__":
    main(*sys.argv[1:])
