"""Asks a cluster for the work that was recorded on another one."""

from __future__ import annotations

import asyncio
import fnmatch
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.formats.workload import read_workload
from pytest_schedprof.model.workload import Graph, Key, Release, Task, Workload

if TYPE_CHECKING:
    from distributed import Client, Future


def replay(
    client: Client,
    path: str | os.PathLike[str],
    *,
    speed: float = 1.0,
    until: float | None = None,
    only: str = "*",
) -> int:
    """Submit the recorded graphs at their times, release what was released, and wait for the rest.

    Durations and sizes are those of the cluster: simulated and virtual ones take them from the
    recording if their option `workload` names it.

    Args:
        client: what submits all graphs, also those of other clients.
        path: file of `schedprof record`.
        speed: how much faster than in reality graphs arrive.
        until: seconds of the recording after which nothing more is submitted.
        only: pattern of prefixes; other tasks are left out.

    Returns:
        how many tasks were submitted.
    """
    if not speed > 0:
        raise SettingsError(f"schedprof: speed must be a positive number, got {speed!r}")
    workload = load_workload(Path(path))
    return _Replay(client, workload, only).run(speed, until)


def load_workload(path: Path) -> Workload:
    """Read a file of a recorded workload."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"schedprof: the workload {path} cannot be read: {error.strerror or error}"
        ) from None
    return read_workload(content, str(path))


def _placeholder(*dependencies: Any) -> None:
    """Stand in for the code of a task, which was not recorded."""


class _Replay:
    """The futures that the recorded clients held."""

    def __init__(self, client: Client, workload: Workload, only: str) -> None:
        self.client, self.workload, self.only = client, workload, only
        self.held: dict[int, Future[Any]] = {}
        self.keys: dict[int, Key] = {}
        """Names of the tasks that were submitted."""
        self.workers = sorted(client.scheduler_info(n_workers=-1)["workers"])

    def run(self, speed: float, until: float | None) -> int:
        """Do everything at its time."""
        from distributed import wait
        from distributed.metrics import time

        begun = time()
        for event in self._events():
            if until is not None and event.time > until:
                break
            self._sleep(begun + event.time / speed - time())
            if isinstance(event, Graph):
                self._submit(event)
            else:
                self._release(event)
        wait(list(self.held.values()))
        return len(self.keys)

    def _sleep(self, seconds: float) -> None:
        """Wait on the client's loop, which has virtual time on a virtual cluster."""
        if seconds > 0:
            self.client.sync(asyncio.sleep, seconds)

    def _events(self) -> Iterator[Graph | Release]:
        events: list[Graph | Release] = [*self.workload.graphs, *self.workload.releases]
        yield from sorted(events, key=lambda each: each.time)

    def _submit(self, graph: Graph) -> None:
        tasks = [each for each in graph.tasks if fnmatch.fnmatch(each.group.prefix, self.only)]
        self.keys.update({each.number: each.group.key(each.number) for each in tasks})
        here = {each.number for each in tasks}
        wanted = [number for number in graph.wanted if number in here] or _ends(tasks)
        if not wanted:
            return
        keys = [self.keys[number] for number in wanted]
        futures = self.client.get(self._layers(tasks, here), keys, sync=False)
        self.held.update(zip(wanted, futures, strict=True))

    def _layers(self, tasks: Sequence[Task], here: set[int]) -> Any:
        """Return a graph with a layer for each set of annotations."""
        from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

        kinds: dict[str, tuple[dict[str, Any], dict[Key, Any]]] = {}
        layer_of: dict[int, str] = {}
        for task in tasks:
            name = f"replay-{sorted(task.annotations.items())}"
            layer_of[task.number] = name
            annotations = self._annotations(task)
            _, layer = kinds.setdefault(name, (annotations, {}))
            layer[self.keys[task.number]] = self._spec(task, here)
        needs: dict[str, set[str]] = {name: set() for name in kinds}
        for task in tasks:
            found = {layer_of[each] for each in task.dependencies if each in here}
            needs[layer_of[task.number]] |= found - {layer_of[task.number]}
        layers = {
            name: MaterializedLayer(layer, annotations=annotations or None)
            for name, (annotations, layer) in kinds.items()
        }
        return HighLevelGraph(layers, needs)

    def _spec(self, task: Task, here: set[int]) -> tuple[Any, ...]:
        """Return what dask is to call; tasks of earlier graphs are given as their futures."""
        found = [
            self.keys[each] if each in here else self.held[each]
            for each in task.dependencies
            if each in here or each in self.held
        ]
        return (_placeholder, *found)

    def _annotations(self, task: Task) -> dict[str, Any]:
        found = dict(task.annotations)
        if "workers" in found:
            count = len(self.workers) or 1
            found["workers"] = [self.workers[each % count] for each in found["workers"]]
        return found

    def _release(self, event: Release) -> None:
        for number in event.tasks or list(self.held):
            self.held.pop(number, None)


def _ends(tasks: Sequence[Task]) -> list[int]:
    """Return the tasks that no other one needs."""
    needed = {each for task in tasks for each in task.dependencies}
    return [task.number for task in tasks if task.number not in needed]
