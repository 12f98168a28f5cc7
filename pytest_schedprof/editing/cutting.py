"""A part of a recorded workload: some of its time, some of its prefixes, or its first tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pytest_schedprof.model.profile import compile_pattern
from pytest_schedprof.model.workload import Graph, Release, Result, Task, WorkerEvent, Workload


def cut(
    workload: Workload, *, begin: float = 0.0, end: float = math.inf, only: str = "*"
) -> Workload:
    """Return the tasks that came within a time, and what they need.

    A task outside whose result is needed is held: it is kept as one that was there before, without
    dependencies and duration.

    Args:
        workload: what is cut.
        begin: seconds after which tasks are kept.
        end: seconds up to which tasks are kept.
        only: pattern of prefixes.
    """
    came = (task for graph in workload.graphs if begin <= graph.time <= end for task in graph.tasks)
    is_chosen = compile_pattern(only).fullmatch
    chosen = {task.number for task in came if is_chosen(task.group.prefix)}
    return _Part(workload, chosen, begin, end).cut()


def first_tasks(workload: Workload, count: int) -> Workload:
    """Return the tasks that ended first. What they need ended before them."""
    ended = sorted(workload.results, key=lambda number: (workload.results[number].time, number))
    return _Part(workload, {*ended[:count]}, 0.0, math.inf).cut()


class _Part:
    """The chosen tasks of a workload, and those that they need."""

    def __init__(self, workload: Workload, chosen: set[int], begin: float, end: float) -> None:
        self.workload, self.chosen, self.begin, self.end = workload, chosen, begin, end
        self.tasks = {task.number: task for task in workload.tasks()}
        self.held: dict[int, float] = {}
        """When the result of a task that is not chosen is needed first."""

    def cut(self) -> Workload:
        """Return the part."""
        graphs = [self._graph(each) for each in self.workload.graphs if self._has(each.time)]
        return replace(
            self.workload,
            begun=_later(self.workload.begun, self.begin),
            name="",
            since=0.0,
            graphs=[each for each in graphs if each.tasks or each.wanted],
            releases=[*self._releases()],
            workers=[*self._workers()],
            results=self._results(),
        )

    def _has(self, time: float) -> bool:
        return self.begin <= time <= self.end

    def _is_there(self, number: int) -> bool:
        return number in self.chosen or number in self.held

    def _graph(self, graph: Graph) -> Graph:
        time = graph.time - self.begin
        own = [task for task in graph.tasks if task.number in self.chosen]
        held = [*self._hold(own, time)]
        kept = [
            replace(task, dependencies=[each for each in task.dependencies if self._is_there(each)])
            for task in own
        ]
        asked = {*graph.wanted}
        # A task that no other one needs would not run unless it is wanted.
        wanted = [each for each in graph.wanted if self._is_there(each)]
        wanted += [each for each in _ends(kept) if each not in asked]
        return replace(graph, time=time, tasks=[*held, *kept], wanted=wanted)

    def _hold(self, tasks: Sequence[Task], time: float) -> Iterator[Task]:
        """Yield the tasks outside that are needed for the first time."""
        for number in (each for task in tasks for each in task.dependencies):
            if number in self.tasks and not self._is_there(number):
                self.held[number] = time
                yield Task(number, self.tasks[number].group, [], {})

    def _results(self) -> dict[int, Result]:
        results, found = self.workload.results, {}
        for number, time in self.held.items():
            ended = results.get(number, Result(0.0, 0.0, 0, False))
            found[number] = replace(ended, time=time, seconds=0.0, failed=())
        for number in self.chosen & results.keys():
            found[number] = replace(results[number], time=results[number].time - self.begin)
        return found

    def _releases(self) -> Iterator[Release]:
        """Yield releases of what is there; one without tasks is of all that a client held."""
        for each in self.workload.releases:
            tasks = [number for number in each.tasks if self._is_there(number)]
            if self._has(each.time) and (tasks or not each.tasks):
                yield replace(each, time=each.time - self.begin, tasks=tasks)

    def _workers(self) -> Iterator[WorkerEvent]:
        """Yield those that were there when the part begins, and who comes and goes after it."""
        events = self.workload.workers
        last = {each.worker: each for each in events if each.time < self.begin}
        yield from (replace(each, time=0.0) for each in last.values() if each.has_joined)
        yield from (
            replace(each, time=each.time - self.begin) for each in events if self._has(each.time)
        )


def _ends(tasks: Sequence[Task]) -> list[int]:
    """Return the tasks that no other one needs."""
    needed = {each for task in tasks for each in task.dependencies}
    return [task.number for task in tasks if task.number not in needed]


def _later(begun: str, seconds: float) -> str:
    """Return a time in the form that it has; one that is not known stays so."""
    try:
        return (datetime.fromisoformat(begun) + timedelta(seconds=seconds)).isoformat()
    except (ValueError, OverflowError):
        return begun
