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
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from importlib import import_module
from time import thread_time  # virtual clusters do not replace it
from typing import Any

from .patches import in_steps, replace
from .recordings import Recording, as_json, begin, under_way

COLLECTING = "gc"
"""Step of the garbage collector, whatever it interrupts."""


class Lane:
    """The CPU time of one thread: each moment belongs to the step that was entered last.

    So the steps add up to the time between the first `enter` and the last `leave`.
    """

    def __init__(self, clock: Callable[[], float] = thread_time) -> None:
        self.clock = clock
        self.stack: list[str] = []
        self.mark = 0.0
        """Up to when the time is divided."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self.is_busy = self.is_collecting = False

    def enter(self, step: str, *, is_call: bool = True) -> None:
        """Begin a step; one that goes on, or is directly inside of itself, is no further call."""
        self.is_busy = True
        now = self.clock()
        if self.stack:
            self.seconds[self.stack[-1]] += now - self.mark
        self.calls[step] += is_call and self.stack[-1:] != [step]
        self.stack.append(step)
        self.mark, self.is_busy = now, False

    def leave(self) -> None:
        """End the step that was entered last."""
        self.is_busy = True
        now = self.clock()
        self.seconds[self.stack.pop()] += now - self.mark
        self.mark, self.is_busy = now, False

    def collect(self, phase: str) -> None:
        """Begin or end a collection, unless it interrupts `enter` or `leave`."""
        if phase == "start" and self.stack and not self.is_busy:
            self.is_collecting = True
            self.enter(COLLECTING, is_call=False)
        elif phase == "stop" and self.is_collecting:
            self.is_collecting = False
            self.leave()


SCHEDULER = "scheduler"
"""In the table, the scheduler object, whatever its class is."""

PLUGINS = "plugins"
"""Step of the scheduler's plugins that do something with a graph."""

PLUGIN_METHOD = "update_graph"

STEPS: Mapping[str, tuple[str, ...]] = {
    "unpickling": ("distributed.scheduler:deserialize",),
    "materialising": (
        "distributed.scheduler:_materialize_graph",
        "distributed.scheduler:valmap",  # in 2024.8 it makes tasks of the graph's tuples
    ),
    "annotations": ("scheduler:_apply_annotations", "dask._expr:*.__dask_annotations__"),
    "culling": ("distributed.scheduler:_cull",),
    "ordering": ("dask.order:order",),
    "matching": (
        "scheduler:_find_lost_dependencies",
        "scheduler:_match_graph_with_tasks",
        "scheduler:_remove_done_tasks_from_dsk",
    ),
    "states": ("scheduler:_generate_taskstates",),
    "priorities": ("scheduler:_set_priorities",),
    "wishes": ("scheduler:client_desires_keys",),
    "spans": ("scheduler.extensions.spans:observe_tasks",),
    "transitions": ("scheduler:transitions",),
    "imports": ("importlib._bootstrap:_find_and_load",),  # the interpreter looks it up each time
}
"""Functions of each step, by all names that they have from distributed 2024.8 on; a release has
some of them. `*` is each class of a module that defines the function."""

Wrap = Callable[[str, Callable[[], Any]], Any]
"""Returns a wrapper for a step. The callable that it is given returns the function to call."""


class Places:
    """Functions that are wrapped, and the way back."""

    def __init__(self, scheduler: Any, wrap: Wrap, undo: ExitStack) -> None:
        self.scheduler, self.wrap, self.undo = scheduler, wrap, undo
        self.steps: set[str] = set()
        """Steps that this release of distributed has."""
        self.met: list[Any] = []
        """Plugins that were looked at."""

    def put(self, step: str, holder: Any, name: str) -> None:
        """Wrap a function where it is looked up.

        An object gets the wrapper as an attribute of its own: it hides the function of its class,
        whatever the class is, and whatever replaces that function meanwhile.
        """
        replace(holder, name, self.wrap(step, _finder(holder, name)), self.undo)
        self.steps.add(step)

    def meet_plugins(self) -> None:
        """Wrap the method of each plugin that was added since the last time and has its own."""
        for plugin in self.scheduler.plugins.values():
            if any(known is plugin for known in self.met):
                continue
            self.met.append(plugin)
            plain = getattr(_module("distributed.diagnostics.plugin"), "SchedulerPlugin", object)
            method = getattr(type(plugin), PLUGIN_METHOD, None)
            is_own = method is not None and method is not getattr(plain, PLUGIN_METHOD, None)
            if is_own and hasattr(plugin, "__dict__"):
                self.put(PLUGINS, plugin, PLUGIN_METHOD)


def _holders(scheduler: Any, place: str) -> Iterator[tuple[Any, str]]:
    """Yield what holds a function of the table, and its name there; nothing if there is none."""
    path, _, name = place.partition(":")
    if path.partition(".")[0] == SCHEDULER:
        holders = [_part(scheduler, path.split(".")[1:])]
    elif name.startswith("*."):
        name = name[2:]
        members = vars(_module(path)).values() if _module(path) else ()
        classes = (kind for kind in members if isinstance(kind, type) and kind.__module__ == path)
        holders = [kind for kind in classes if name in vars(kind)]
    else:
        holders = [_module(path)]
    can_have = (holder for holder in holders if hasattr(holder, "__dict__"))
    yield from ((holder, name) for holder in can_have if hasattr(holder, name))


def _part(scheduler: Any, path: list[str]) -> Any:
    """Return a part of the scheduler, such as an extension; None if it lacks that."""
    for name in path:
        is_table = isinstance(scheduler, dict)
        scheduler = scheduler.get(name) if is_table else getattr(scheduler, name, None)
    return scheduler


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:  # of another release
        return None


def _finder(holder: Any, name: str) -> Callable[[], Any]:
    """Return what finds the function that a wrapper hides, as a caller would find it.

    It is called each time, and `transitions` of a scheduler often.
    """
    if name in vars(holder):
        before = vars(holder)[name]
        return lambda: before
    kind, bind = type(holder), types.MethodType
    function = inspect.getattr_static(kind, name)
    if isinstance(function, types.FunctionType):
        return lambda: bind(getattr(kind, name), holder)
    return lambda: function.__get__(holder, kind)


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
                if inspect.iscoroutine(result):  # as mostly
                    return await in_steps(result, self.stretch)
                return await result if inspect.isawaitable(result) else result
            finally:
                graph.is_open = False  # callbacks that began meanwhile have the same context
                self.graph.set(None)

        return update_graph

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
        for step, places in STEPS.items():
            for place in places:
                for holder, name in _holders(self.places.scheduler, place):
                    self.places.put(step, holder, name)
        self.places.meet_plugins()
        real = self.handlers[HANDLER]
        mine = self.intake.of_graph(real, self.places.meet_plugins)
        replace(self.handlers, HANDLER, mine, self.undo)
        gc.callbacks.append(self.intake.collect)
        self.undo.callback(gc.callbacks.remove, self.intake.collect)

    async def end(self, timeout: float) -> dict[str, Any]:
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
