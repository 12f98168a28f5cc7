"""Divides the CPU time of the scheduler's `update_graph` among the steps that it consists of.

Each step is timed by the CPU clock of the thread that runs it, because some are offloaded to
another thread. The time of a step inside of another is not the outer one's, so that all steps
together are the whole of `update_graph`. What is no step is `rest`.
"""

from __future__ import annotations

import functools
import gc
import inspect
import threading
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any

from .intake_places import PLUGINS, Places
from .lanes import COLLECTING, Lane
from .patches import in_steps
from .recordings import Recording, as_json, begin, under_way

REST = "rest"

IMPORTS = "imports"
"""A module is imported once, by the first graph that needs it; calls of it tell nothing."""

HANDLER = "update-graph"
"""The message with a graph."""

Call = Callable[[], Any]


class Graph:
    """A graph that is being taken in."""

    is_open = True


class Intake:
    """Times steps within `update_graph`, on all threads; calls from elsewhere are not counted."""

    def __init__(self) -> None:
        self.lanes: list[Lane] = []
        self.local = threading.local()
        self.graph: ContextVar[Graph | None] = ContextVar("schedprof_graph", default=None)
        """The thread to which steps are offloaded runs them in the same context."""
        self.is_open = True

    @property
    def lane(self) -> Lane:
        """The lane of this thread."""
        lane: Lane | None = getattr(self.local, "lane", None)
        if lane is None:
            lane = self.local.lane = Lane()
            self.lanes.append(lane)
        return lane

    def within(self, step: str, call: Call, *, is_call: bool = True) -> Any:
        """Call a function as a step, if that is for a graph."""
        graph = self.graph.get()
        if graph is None or not (graph.is_open and self.is_open):
            return call()
        lane = self.lane
        lane.enter(step, is_call=is_call)
        try:
            return call()
        finally:
            lane.leave()

    def stretch(self, call: Call) -> Any:
        """Run `update_graph` up to its next await."""
        return self.within(REST, call, is_call=False)

    def of_graph(self, handler: Any, meet: Call) -> Any:
        """Return a handler of graphs whose steps are timed; it calls `meet` before each graph."""

        @functools.wraps(handler)
        async def update_graph(*args: Any, **keywords: Any) -> Any:
            meet()
            graph = Graph()
            self.graph.set(graph)
            self.lane.calls[REST] += self.is_open
            try:
                result = self.stretch(functools.partial(handler, *args, **keywords))
                return await self.rest_of(result)
            finally:
                graph.is_open = False  # callbacks that began meanwhile have the same context
                self.graph.set(None)

        return update_graph

    async def rest_of(self, result: Any) -> Any:
        """Wait for what a handler returned: mostly a coroutine."""
        if inspect.iscoroutine(result):
            return await in_steps(result, self.stretch)
        return await result if inspect.isawaitable(result) else result

    def of_step(self, step: str, find: Call) -> Any:
        """Return a function that calls the one that `find` returns, as a step."""

        is_call = step != IMPORTS

        @functools.wraps(find())
        def call(*args: Any, **keywords: Any) -> Any:
            return self.within(step, functools.partial(find(), *args, **keywords), is_call=is_call)

        return call

    def collect(self, phase: str, facts: dict[str, Any]) -> None:
        """Time a collection; the collector calls this before and after."""
        if lane := getattr(self.local, "lane", None):
            lane.collect(phase)

    def record(self, steps: set[str]) -> dict[str, dict[str, float]]:
        """Return calls and CPU seconds of steps, also of those that did not run."""
        lanes = list(self.lanes)
        return {
            step: {
                "calls": sum(lane.calls[step] for lane in lanes),
                "cpu": sum(lane.seconds[step] for lane in lanes),
            }
            for step in sorted(steps)
        }


class IntakeRecording(Recording):
    """The steps of one window."""

    kind = "intake"

    def __init__(self, client: str, scheduler: Any) -> None:
        super().__init__(client)
        self.handlers = scheduler.stream_handlers
        self.undo = ExitStack()
        self.intake = Intake()
        self.places = Places(scheduler, self.intake.of_step, self.undo)

    def begin(self) -> None:
        """Wrap the steps, and what calls them."""
        self.places.put_all()
        self.places.meet_plugins()
        real = self.handlers[HANDLER]
        mine = self.handlers[HANDLER] = self.intake.of_graph(real, self.places.meet_plugins)
        self.undo.callback(self._put_back, real, mine)
        gc.callbacks.append(self.intake.collect)
        self.undo.callback(gc.callbacks.remove, self.intake.collect)

    def _put_back(self, real: Any, mine: Any) -> None:
        if self.handlers.get(HANDLER) is mine:
            self.handlers[HANDLER] = real

    async def end(self, timeout: float) -> dict[str, Any]:
        """Restore all, and keep what was timed."""
        self.restore()
        steps = self.places.steps | {PLUGINS, COLLECTING, REST}
        self.content = as_json({"schedprof_intake": 1, "steps": self.intake.record(steps)})
        return {}

    def restore(self) -> None:
        """Leave the scheduler as it was."""
        self.intake.is_open = False
        self.undo.close()


async def start(client: str, dask_scheduler: Any = None) -> dict[str, Any]:
    """Begin to time; return a `token` or a `problem`."""
    if IntakeRecording.kind in under_way(dask_scheduler):
        return {"problem": "busy"}
    if not hasattr(dask_scheduler, "stream_handlers"):  # the test's own process
        return {"problem": "shared"}
    recording = IntakeRecording(client, dask_scheduler)
    try:
        recording.begin()
    except BaseException:
        recording.restore()
        raise
    return begin(dask_scheduler, recording)
