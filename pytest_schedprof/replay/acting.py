"""One client of a replay, which repeats what a recorded one did, and the graphs that it sends."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_schedprof.errors import ClusterError
from pytest_schedprof.formats.workload import MICRO
from pytest_schedprof.model.profile import compile_pattern
from pytest_schedprof.model.workload import ACTOR, Graph, Key, Task, Workload
from pytest_schedprof.replay.following import Action, Order, Script, needed_from_outside

if TYPE_CHECKING:
    from distributed import Client, Future


class Play:
    """What the clients of a replay share."""

    def __init__(
        self,
        workload: Workload,
        speed: float,
        until: float,
        only: str,
        address: Callable[[int], str],
    ) -> None:
        if only != "*":
            is_kept = compile_pattern(only).fullmatch
            tasks = (task for task in workload.tasks() if is_kept(task.group.prefix))
            workload = part_of(workload, {task.number for task in tasks})
        self.workload = workload
        self.speed, self.until = speed, until
        self.where = address
        """Returns the worker that replaces a recorded one."""
        self.keys: dict[int, Key] = {}
        """Names of the submitted tasks."""
        self.tasks: dict[int, Task] = {}
        self._homes = {task.number: graph for graph in self.workload.graphs for task in graph.tasks}
        self._sent = {id(graph): asyncio.Event() for graph in self.workload.graphs}
        self._users = _users(self.workload.graphs)
        start = workload.graphs[0].time if workload.graphs else 0.0
        self._begun = asyncio.get_running_loop().time() - start / speed

    @property
    def now(self) -> float:
        """Seconds of the file, at this speed."""
        return asyncio.get_running_loop().time() - self._begun

    async def until_time(self, time: float) -> None:
        """Wait until a time of the file, at this speed."""
        if (left := time - self.now) > 0:
            await asyncio.sleep(left)

    async def until_sent(self, graph: Graph) -> None:
        """Wait until all graphs are submitted whose tasks this one needs."""
        own = {task.number for task in graph.tasks}
        needed = needed_from_outside(graph).union(graph.wanted) - own
        homes = map(self._homes.get, needed)
        for number in {id(home) for home in homes if home is not None}:
            await self._sent[number].wait()

    async def until_used(self, results: Iterable[int], released: float) -> None:
        """Wait until all graphs are submitted that used results before their release.

        Graphs and releases follow different results. If these come in another order than in the
        recording, a release could overtake a graph, whose dependencies would run again.
        """
        for number in results:
            for graph in self._users.get(number, ()):
                if round(graph.time * MICRO) <= round(released * MICRO):
                    await self._sent[id(graph)].wait()

    async def until_task_sent(self, number: int) -> None:
        """Wait until the graph of a task is submitted, unless the replay leaves it out."""
        if (home := self._homes.get(number)) is not None and number not in self.keys:
            await self._sent[id(home)].wait()

    def note(self, graph: Graph, tasks: Sequence[Task]) -> None:
        """Note that a graph is about to be submitted."""
        self.keys.update({task.number: task.group.key(task.number) for task in tasks})
        self.tasks.update({task.number: task for task in tasks})
        self._sent[id(graph)].set()


def _users(graphs: Sequence[Graph]) -> dict[int, list[Graph]]:
    """Return the graphs that use results of earlier ones, by the number of the result."""
    users: dict[int, list[Graph]] = defaultdict(list)
    for graph in graphs:
        for number in needed_from_outside(graph):
            users[number].append(graph)
    return users


def part_of(workload: Workload, kept: Set[int]) -> Workload:
    """Return a workload with some of its tasks, and the results of these."""
    graphs = [
        replace(
            graph,
            tasks=[task for task in graph.tasks if task.number in kept],
            wanted=[number for number in graph.wanted if number in kept],
        )
        for graph in workload.graphs
    ]
    results = {number: result for number, result in workload.results.items() if number in kept}
    return replace(workload, graphs=graphs, results=results)


class ActingClient:
    """Submits the graphs of a client, and holds the futures that it held."""

    def __init__(self, play: Play, client: Client, script: Script) -> None:
        self.play, self.client, self.actions = play, client, script.actions
        self.order = Order(script.in_order)
        self.held: dict[int, Future[Any]] = {}
        self._shift = 0.0
        """How many seconds it is behind the recorded client."""
        self._counts = bool(script.in_order) or any(action.count for action in script.actions)
        """Whether an action follows a number of results, whichever these are."""
        self._ends: list[float] = []
        """The times at which results came."""
        self._awaited: dict[int, asyncio.Event] = {}
        """Events to set, by the number of results that must have come."""
        self._watching: list[asyncio.Future[None]] = []

    async def act(self) -> None:
        """Act at the right times, wait for the results that the client got, and release them."""
        try:
            await self._act()
            await self._finish()
        finally:
            self.held.clear()  # the error of a cancelled task may hold this object

    async def _act(self) -> None:
        futures: list[asyncio.Future[None]] = []
        try:
            for action in self.actions:
                if action.event.time > self.play.until:
                    break
                if action.is_beside:
                    futures.append(asyncio.ensure_future(self._do(action)))
                else:
                    if action.ended is not None:  # it waited for all
                        await asyncio.gather(*futures)
                        futures.clear()
                    await self._do(action)
            await asyncio.gather(*futures)
        finally:
            for task in [*futures, *self._watching]:
                task.cancel()

    async def _do(self, action: Action) -> None:
        await self._until(action)
        if isinstance(action.event, Graph):
            await self._submit(action.event)
        else:
            release = action.event
            await self.play.until_used(release.tasks or list(self.held), release.time)
            for number in [*map(self.order.of, release.tasks)] or list(self.held):
                self.held.pop(number, None)

    async def _until(self, action: Action) -> None:
        """Wait until the time of an action, by the client's own clock."""
        play, shift = self.play, self._shift
        for number in action.after:
            if (future := await self._future(number)) is not None:
                await _ended(future)
        if action.count:  # results that come before it
            if len(self._ends) < action.count:
                await self._awaited.setdefault(action.count, asyncio.Event()).wait()
            came = self._ends[action.count - 1]
            shift = self._shift = came - (action.ended or 0.0) / play.speed
        elif action.ended is not None:
            shift = self._shift = play.now - action.ended / play.speed
        await play.until_time(action.event.time / play.speed + shift)

    async def _watch(self, number: int, state: Any) -> None:
        """Note when a result comes; unlike the future, its state does not keep the result."""
        await state.wait()
        if state.status == "cancelled":  # released before it came
            return
        self._ends.append(self.play.now)
        self.order.note(number, self.play.tasks[number].group.prefix)
        if (awaited := self._awaited.pop(len(self._ends), None)) is not None:
            awaited.set()

    async def _future(self, number: int) -> Future[Any] | None:
        """Return the future of a task that the client holds, or will hold."""
        await self.order.until(number)
        number = self.order.of(number)
        if number not in self.held:
            await self.play.until_task_sent(number)
        return self.held.get(number)

    async def _submit(self, graph: Graph) -> None:
        play, actual = self.play, self.order.in_graph(graph)
        tasks = actual.tasks
        await play.until_sent(actual)
        play.note(graph, tasks)
        targets = actual.wanted or ends_of(tasks)
        targets = [number for number in targets if number in play.keys and number not in self.held]
        if not targets:
            return
        new = {task.number for task in tasks}
        earlier = [play.tasks[number] for number in targets if number not in new]
        sent = with_earlier([*tasks, *earlier], play.tasks, self.held)
        # Several names in a tuple, because a list would be one name; None if there are none.
        actors = tuple(play.keys[task.number] for task in sent if task.annotations.get(ACTOR))
        futures = self.client.get(
            graph_of(sent, play.keys, self.held, play.where),
            [play.keys[number] for number in targets],
            actors=actors or None,
            sync=False,
        )
        self.held.update(zip(targets, futures, strict=True))
        if self._counts:
            self._watching += [
                asyncio.ensure_future(self._watch(number, self.held[number]._state))
                for number in targets
                if number in play.workload.results
            ]

    async def _finish(self) -> None:
        """Wait for all tasks that ended in reality."""
        results = self.play.workload.results
        for number, future in self.held.items():
            if number in results:
                await _ended(future)
                if future.status == "cancelled":
                    raise ClusterError(f"schedprof: replay: {future.key!r} was cancelled")


async def _ended(future: Future[Any]) -> None:
    """Wait until a task has ended, without its result."""
    state: Any = future._state
    await state.wait()


def ends_of(tasks: Sequence[Task]) -> list[int]:
    """Return the tasks that no other task needs."""
    needed = {number for task in tasks for number in task.dependencies}
    return [task.number for task in tasks if task.number not in needed]


def _placeholder(*dependencies: Any) -> None:
    """Replace the code of a task, which was not recorded."""


def graph_of(
    tasks: Sequence[Task],
    keys: Mapping[int, Key],
    held: Mapping[int, Any],
    address: Callable[[int], str],
) -> Any:
    """Return a graph with a layer for each set of annotations.

    Args:
        held: futures of the client, for dependencies outside of the graph.
        address: returns the worker that replaces one to which tasks are restricted.
    """
    from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

    layer_of = {
        task.number: f"replay-{sorted(task.annotations.items())}" if task.annotations else "replay"
        for task in tasks
    }
    layers: dict[str, dict[Key, Any]] = {name: {} for name in layer_of.values()}
    needs: dict[str, set[str]] = {name: set() for name in layers}
    annotations: dict[str, dict[str, Any]] = {}
    for task in tasks:
        name = layer_of[task.number]
        annotations.setdefault(name, _annotations(task, address))
        arguments = [
            keys[number] if number in layer_of else held[number]
            for number in task.dependencies
            if number in layer_of or number in held
        ]
        layers[name][keys[task.number]] = (_placeholder, *arguments)
        inside = {layer_of[number] for number in task.dependencies if number in layer_of}
        needs[name] |= inside - {name}
    made = {
        name: MaterializedLayer(layer, annotations=annotations[name] or None)
        for name, layer in layers.items()
    }
    return HighLevelGraph(made, needs)


def _annotations(task: Task, address: Callable[[int], str]) -> dict[str, Any]:
    annotations = {name: value for name, value in task.annotations.items() if name != ACTOR}
    if "workers" in annotations:
        annotations["workers"] = [address(worker) for worker in annotations["workers"]]
    return annotations


def with_earlier(tasks: Sequence[Task], earlier: Mapping[int, Task], held: Any) -> list[Task]:
    """Return tasks and those of earlier graphs that they need and the client does not hold.

    The recorded client must have sent them again; the scheduler knows them and does nothing.
    """
    graph = {task.number: task for task in tasks}
    waiting = list(tasks)
    while waiting:
        for number in waiting.pop().dependencies:
            if number not in graph and number not in held and number in earlier:
                graph[number] = earlier[number]
                waiting.append(earlier[number])
    return list(graph.values())
