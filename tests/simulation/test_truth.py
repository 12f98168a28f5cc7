"""Test that a scheduler does the same for hollow workers as for real ones, task by task."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeAlias

import dask
import dask.array
import pytest
from at_work import by_value, inc
from dask.delayed import delayed
from distributed import Client, wait

from pytest_schedprof.agent import facts
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.own import LocalProcesses, OwnCluster, SimulatedCluster
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.control.control import Control
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.model.profile import CostProfile
from pytest_schedprof.virtual.shuffles import IS_KNOWN

STATE_MACHINE = (
    "SchedulerState._transition*",
    "SchedulerState.transition*",
    "SchedulerState.new_task",
    "SchedulerState._add_to_*",
    "SchedulerState._exit_processing_common",
    "SchedulerState._set_duration_estimate",
    "SchedulerState._remove_key",
    "SchedulerState.remove_all_replicas",
    "SchedulerState.decide_worker*",
    "Scheduler.transitions",
    "Scheduler.stimulus_*",
    "Scheduler.handle_task_finished",
    "Scheduler.update_graph",
    "Scheduler.client_*",
    "TaskState.__init__",
    "TaskState.state",
    "TaskState.add_dependency",
)
"""Functions that the scheduler calls for each task, whichever worker runs it.

The number of transfers and of tasks that are stolen (`Scheduler.send_task_to_worker` is called for
these alone) depends on which worker was idle when, and it differs from run to run
with real workers too.
"""

pytestmark = pytest.mark.slow

PATIENCE_S = 200.0
"""More than a graph takes on a busy machine."""

TOLERANCE = 0.02
RARE = 0.05
"""Calls per task below which small differences are random."""

CHANCE = {"p2p": 0.08}
"""Tolerated difference in calls per task, by graph.

It is random how many outputs of a shuffle are first tried on the worker where they belong. For
200 of them among 250 tasks, this is three standard deviations of the difference between two runs.
"""


@by_value
def add(*xs: int) -> int:
    return 1


def tree(client: Client, size: int) -> Any:
    """Make each level once the one below is in memory.

    If the client and the workers raced, the reads of `TaskState.state` would differ by up to 7 %
    from run to run.
    """
    level = client.map(inc, range(size), pure=False)
    while len(level) > 1:
        wait(level, timeout=PATIENCE_S)
        level = client.map(add, level[::2], level[1::2], pure=False)
    return level


def rechunk(method: str, rows: int = 4) -> Callable[[Client, int], Any]:
    """Return what makes `size` columns of chunks of `size` * `rows` / 4 rows of them."""

    def rechunked(client: Client, size: int) -> Any:
        with dask.config.set({"array.rechunk.method": method}):
            array = dask.array.random.random((rows * size, 800), chunks=(4, 800))
            return client.persist(array.rechunk((rows * size, 800 // size)))

    return rechunked


def random_graph(client: Client, size: int) -> Any:
    rng = random.Random(0)
    nodes = [delayed(inc)(0)]
    for _ in range(size):
        nodes.append(delayed(add)(*rng.sample(nodes, min(len(nodes), rng.randint(1, 3)))))
    return client.compute(nodes[-50:])


GRAPHS: dict[str, tuple[Callable[[Client, int], Any], int]] = {
    "tree": (tree, 64),
    "rechunk": (rechunk("tasks"), 20),
    "p2p": (rechunk("p2p", rows=1), 200),
    "random": (random_graph, 200),
}
"""Graphs of so many leaves, chunks in each direction, or tasks."""

SMALL = 8
"""Size of the first run of each graph, in which task prefixes are new."""

if not IS_KNOWN:
    del GRAPHS["p2p"]


Counts: TypeAlias = "dict[str, tuple[int, dict[str, float]]]"
"""For each graph, its number of tasks and the calls per task of each function."""


def counts_of(kind: type[OwnCluster], options: dict[str, str]) -> Counts:
    """Counts of each graph after a small one of its kind."""
    counts: Counts = {}
    with (
        closing(kind(8, timeout_s=PATIENCE_S, options=options)) as cluster,
        Client(cluster.address) as client,
        cluster.open_line(PATIENCE_S) as control,
    ):
        for name, (graph, size) in GRAPHS.items():
            wait(graph(client, SMALL), timeout=PATIENCE_S)
            assert control.call(facts.wait_until_idle, PATIENCE_S) == 0
            counts[name] = counted(control, partial(graph, client, size))
    return counts


def counted(control: Control, graph: Callable[[], Any]) -> tuple[int, dict[str, float]]:
    backend = BackendRegistry().make("counts", rate_hz=100, options={"bytecodes": False})
    recorder = Recorder(control, [backend], PATIENCE_S)
    with recorder.round():
        futures = graph()
        wait(futures, timeout=PATIENCE_S)
        del futures
    assert recorder.errors == []
    ((segment,),) = recorder.rounds
    profile = backend.read(segment.raw["counts"].content, control.name_places)
    assert isinstance(profile, CostProfile)
    tasks = segment.facts.tasks
    return tasks, {name: costs["calls"] / tasks for name, costs in profile.functions.items()}


def far_apart(name: str, real: dict[str, float], hollow: dict[str, float]) -> dict[str, Any]:
    """Functions of the state machine that are called more or less often for hollow workers."""
    patterns = [f"distributed.scheduler:{pattern}" for pattern in STATE_MACHINE]
    functions = [
        function
        for function in real
        if any(fnmatchcase(function, pattern) for pattern in patterns) and "<" not in function
    ]
    assert len(functions) > 20
    pairs = {function: (real[function], hollow.get(function, 0.0)) for function in functions}
    return {
        f"{name} {function}": (calls, other)
        for function, (calls, other) in pairs.items()
        if abs(other - calls) > TOLERANCE * calls + CHANCE.get(name.partition(" ")[2], 0)
        and max(calls, other) > RARE
    }


def test_calls_per_task_are_those_of_real_workers() -> None:
    """One test for all graphs, because with xdist several tests would each start both clusters."""
    real = counts_of(LocalProcesses, {})
    for kind in (SimulatedCluster, VirtualCluster):
        hollow = counts_of(kind, {"duration": "50us"})
        assert {name: tasks for name, (tasks, _) in hollow.items()} == {
            name: tasks for name, (tasks, _) in real.items()
        }
        far: dict[str, Any] = {}
        for name in GRAPHS:
            far |= far_apart(f"{kind.kind} {name}", real[name][1], hollow[name][1])
        assert far == {}
