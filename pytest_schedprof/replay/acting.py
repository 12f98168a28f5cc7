"""One client of a replay, which does what a recorded client did."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_schedprof.errors import ClusterError
from pytest_schedprof.formats.workload import MICRO
from pytest_schedprof.model.profile import compile_pattern
from pytest_schedprof.model.workload import Graph, Key, Release, Task, Workload
from pytest_schedprof.replay.following import Action, Order, Script, needed_from_outside
from pytest_schedprof.replay.graphs import actors_among, graph_of, with_earlier

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
        where: Callable[[int], str],
    ) -> None:
        self.workload = workload if only == "*" else _part(workload, only)
        self.speed, self.until = speed, until
        self.where = where
        """Returns the worker that stands for a recorded one."""
        self.keys: dict[int, Key] = {}
        """Names of the tasks that were submitted."""
        self.tasks: dict[int, Task] = {}
        self._homes = {task.number: graph for graph in self.workload.graphs for task in graph.tasks}
        self._sent = {id(graph): asyncio.Event() for graph in self.workload.graphs}
        self._users = _users(self.workload.graphs)
        start = workload.graphs[0].time if workload.graphs else 0.0
        self._begun = asyncio.get_running_loop().time() - start / speed

    @property
    def now(self) -> float:
        """Seconds, as the file counts them at this speed."""
        return asyncio.get_running_loop().time() - self._begun

    async def until_time(self, time: float) -> None:
        """Wait until a time of the file at this speed."""
        if (left := time - self.now) > 0:
            await asyncio.sleep(left)

    async def until_sent(self, graph: Graph) -> None:
        """Wait until all graphs were submitted whose tasks this one needs."""
        here = {each.number for each in graph.tasks}
        needed = needed_from_outside(graph).union(graph.wanted) - here
        homes = map(self._homes.get, needed)
        for number in {id(home) for home in homes if home is not None}:
            await self._sent[number].wait()

    async def until_used(self, results: Iterable[int], released: float) -> None:
        """Wait until all graphs were submitted that used results before their release.

        Graphs and releases follow different results. If these come in another order than in the
        recording, a release would overtake a graph, and what this needs would run again.
        """
        for number in results:
            for graph in self._users.get(number, ()):
                if round(graph.time * MICRO) <= round(released * MICRO):
                    await self._sent[id(graph)].wait()

    async def until_task_sent(self, number: int) -> None:
        """Wait until the graph of a task was submitted, unless it is left out."""
        if (home := self._homes.get(number)) is not None and number not in self.keys:
            await self._sent[id(home)].wait()

    def note(self, graph: Graph, tasks: Sequence[Task]) -> None:
        """Note that a graph is about to be submitted."""
        self.keys.update({each.number: each.group.key(each.number) for each in tasks})
        self.tasks.update({each.number: each for each in tasks})
        self._sent[id(graph)].set()


def _users(graphs: Sequence[Graph]) -> dict[int, list[Graph]]:
    """Return the graphs that use a result of an earlier one."""
    users: dict[int, list[Graph]] = defaultdict(list)
    for graph in graphs:
        for number in needed_from_outside(graph):
            users[number].append(graph)
    return users


def _part(workload: Workload, only: str) -> Workload:
    """Return a workload with the tasks of some prefixes, and the results of these."""
    is_kept = compile_pattern(only).fullmatch
    kept = {each.number for each in workload.tasks() if is_kept(each.group.prefix)}
    graphs = [
        replace(
            each,
            tasks=[task for task in each.tasks if task.number in kept],
            wanted=[number for number in each.wanted if number in kept],
        )
        for each in workload.graphs
    ]
    results = {number: each for number, each in workload.results.items() if number in kept}
    return replace(workload, graphs=graphs, results=results)


class ActingClient:
    """Submits the graphs of a client, and holds the futures that it held."""

    def __init__(self, play: Play, client: Client, script: Script) -> None:
        self.play, self.client, self.actions = play, client, script.actions
        self.order = Order(script.in_order)
        self.held: dict[int, Future[Any]] = {}
        self._shift = 0.0
        """How much later than the recorded one it is."""
        self._counts = bool(script.in_order) or any(each.count for each in script.actions)
        """Whether anything is done when a result has come, whichever it is."""
        self._ends: list[float] = []
        """When results came."""
        self._awaited: dict[int, asyncio.Event] = {}
        """What to set when so many results have come."""
        self._watching: list[asyncio.Future[None]] = []

    async def act(self) -> None:
        """Do everything at its time, wait for the results that the client got, and release them."""
        try:
            await self._act()
            await self._finish()
        finally:
            self.held.clear()  # the error of something that was cancelled may hold this object

    async def _act(self) -> None:
        beside: list[asyncio.Future[None]] = []
        try:
            for action in self.actions:
                if action.event.time > self.play.until:
                    break
                if action.is_beside:
                    beside.append(asyncio.ensure_future(self._do(action)))
                else:
                    if action.ended is not None:  # it waited for all
                        await asyncio.gather(*beside)
                        beside.clear()
                    await self._do(action)
            await asyncio.gather(*beside)
        finally:
            for each in [*beside, *self._watching]:
                each.cancel()

    async def _do(self, action: Action) -> None:
        await self._until(action)
        if isinstance(action.event, Graph):
            await self._submit(action.event)
        else:
            release = action.event
            await self.play.until_used(release.tasks or list(self.held), release.time)
            self._release(release)

    async def _until(self, action: Action) -> None:
        """Wait until it is time, by the client's own clock."""
        play, shift = self.play, self._shift
        for number in action.after:
            if (future := await self._future(number)) is not None:
                await _ended(future)
        if action.count:
            came = await self._until_count(action.count)
            shift = self._shift = came - (action.ended or 0.0) / play.speed
        elif action.ended is not None:
            shift = self._shift = play.now - action.ended / play.speed
        await play.until_time(action.event.time / play.speed + shift)

    async def _until_count(self, count: int) -> float:
        """Wait until so many results have come; return when that was."""
        if len(self._ends) < count:
            await self._awaited.setdefault(count, asyncio.Event()).wait()
        return self._ends[count - 1]

    async def _watch(self, number: int, state: Any) -> None:
        """Note when a result comes; the state of a future does not keep the future."""
        await state.wait()
        if state.status == "cancelled":  # released before it came
            return
        self._ends.append(self.play.now)
        self.order.note(number, self.play.tasks[number].group.prefix)
        if (awaited := self._awaited.pop(len(self._ends), None)) is not None:
            awaited.set()

    async def _future(self, number: int) -> Future[Any] | None:
        """Return the future of a task that the client has asked for, or will have."""
        await self.order.until(number)
        number = self.order.of(number)
        if number not in self.held:
            await self.play.until_task_sent(number)
        return self.held.get(number)

    async def _submit(self, graph: Graph) -> None:
        play, asked_for = self.play, self.order.in_graph(graph)
        tasks = asked_for.tasks
        await play.until_sent(asked_for)
        play.note(graph, tasks)
        ends = asked_for.wanted or _ends(tasks)
        wanted = [each for each in ends if each in play.keys and each not in self.held]
        if not wanted:
            return
        new = {each.number for each in tasks}
        asked = [*tasks, *(play.tasks[each] for each in wanted if each not in new)]
        sent = with_earlier(asked, play.tasks, self.held)
        futures = self.client.get(
            graph_of(sent, play.keys, self.held, play.where),
            [play.keys[each] for each in wanted],
            actors=actors_among(sent, play.keys),
            sync=False,
        )
        self.held.update(zip(wanted, futures, strict=True))
        if self._counts:
            ending = [each for each in wanted if each in play.workload.results]
            self._watching += [
                asyncio.ensure_future(self._watch(each, self.held[each]._state)) for each in ending
            ]

    def _release(self, event: Release) -> None:
        for number in [*map(self.order.of, event.tasks)] or list(self.held):
            self.held.pop(number, None)

    async def _finish(self) -> None:
        """Wait for all that ended in reality."""
        results = self.play.workload.results
        for number, future in self.held.items():
            if number in results:
                await _ended(future)
                if future.status == "cancelled":
                    raise ClusterError(f"schedprof: replay: {future.key!r} was cancelled")


async def _ended(future: Future[Any]) -> None:
    """Wait until a task has ended, well or not, without its result."""
    state: Any = future._state
    await state.wait()


def _ends(tasks: Sequence[Task]) -> list[int]:
    """Return the tasks that no other one needs."""
    needed = {each for task in tasks for each in task.dependencies}
    return [task.number for task in tasks if task.number not in needed]
