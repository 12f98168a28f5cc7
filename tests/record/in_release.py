"""Records work, or replays what was recorded; a program for interpreters of other releases.

It prints of each run how many transitions that took, how many virtual seconds, and how many tasks
a replay had.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from at_work import at_work, by_value
from distributed import Client, wait

from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.replay.fetching import record_workload
from pytest_schedprof.workloads import WORKLOADS, replay

OPTIONS = {"duration": "uniform(100ms, 500ms)", "nbytes": "uniform(100kB, 2MB)"}
SHAPES = ("tree_reduction", "all_to_all", "annotated_tasks")
SIZE = 100


@by_value
def one(x: object) -> int:
    """Be a task, or make an actor."""
    return 1


@by_value
def begin(dask_scheduler: Any = None) -> int:
    """Begin a window; return how many transitions there were."""
    dask_scheduler.extensions["schedprof-virtual"].begin()
    return int(dask_scheduler.transition_counter)


@by_value
async def end(dask_scheduler: Any = None) -> tuple[dict[str, Any], int]:
    """Wait until all tasks are forgotten; return the window, and how many transitions there are."""
    while dask_scheduler.tasks:
        await asyncio.sleep(0.01)
    window = dask_scheduler.extensions["schedprof-virtual"].end()
    return window, int(dask_scheduler.transition_counter)


def work(client: Client) -> int:
    """Run actors and shapes of work one after the other."""
    actors = client.map(one, range(SIZE), actor=True)
    wait(client.map(one, actors, pure=False))
    del actors  # before the recording ends, so that a replay releases them as late
    for shape in SHAPES:
        WORKLOADS[shape](client, SIZE)
    return 0


def done(action: str, path: str) -> tuple[int, float, int]:
    """Record or replay a file; return transitions, seconds and tasks."""
    is_replay = action == "replay"
    options = {"workload": path} if is_replay else OPTIONS
    with at_work(VirtualCluster, **options) as client:
        before = client.run_on_scheduler(begin)
        if is_replay:
            tasks = replay(client, path)
        else:
            with record_workload(client, path):
                tasks = work(client)
        window, after = client.run_on_scheduler(end)
    return after - before, window["figures"]["makespan"], tasks


if __name__ == "__main__":
    runs = zip(sys.argv[1::2], sys.argv[2::2], strict=True)
    sys.stdout.write(json.dumps([done(action, path) for action, path in runs]))
