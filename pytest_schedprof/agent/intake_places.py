"""Where the functions of the steps of graph intake are, and how they are wrapped and put back."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from importlib import import_module
from typing import Any

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

    def put_all(self) -> None:
        """Wrap the functions of the table."""
        for step, places in STEPS.items():
            for place in places:
                for holder, name in _holders(self.scheduler, place):
                    self.put(step, holder, name)

    def put(self, step: str, holder: Any, name: str) -> None:
        """Wrap a function where it is looked up.

        An object gets the wrapper as an attribute of its own: it hides the function of its class,
        whatever the class is, and whatever replaces that function meanwhile.
        """
        own = dict(vars(holder))
        wrapper = self.wrap(step, _finder(holder, name))
        setattr(holder, name, wrapper)
        self.undo.callback(_put_back, holder, name, wrapper, own)
        self.steps.add(step)

    def meet_plugins(self) -> None:
        """Wrap the method of each plugin that was added since the last time and has its own."""
        for plugin in self.scheduler.plugins.values():
            if any(each is plugin for each in self.met):
                continue
            self.met.append(plugin)
            if _has_own_method(plugin):
                self.put(PLUGINS, plugin, PLUGIN_METHOD)


def _holders(scheduler: Any, place: str) -> Iterator[tuple[Any, str]]:
    """Yield what holds a function of the table, and its name there; nothing if there is none."""
    path, _, name = place.partition(":")
    if path.partition(".")[0] == SCHEDULER:
        holders = [_part(scheduler, path.split(".")[1:])]
    elif name.startswith("*."):
        name = name[2:]
        holders = [each for each in _classes(path) if name in vars(each)]
    else:
        holders = [_module(path)]
    can_have = (each for each in holders if hasattr(each, "__dict__"))
    yield from ((each, name) for each in can_have if hasattr(each, name))


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


def _classes(module: str) -> list[type]:
    found = vars(_module(module)) if _module(module) else {}
    return [each for each in found.values() if isinstance(each, type) and each.__module__ == module]


def _has_own_method(plugin: Any) -> bool:
    """Whether a plugin does something with graphs, and can be wrapped."""
    plain = getattr(_module("distributed.diagnostics.plugin"), "SchedulerPlugin", object)
    method = getattr(type(plugin), PLUGIN_METHOD, None)
    is_own = method is not None and method is not getattr(plain, PLUGIN_METHOD, None)
    return is_own and hasattr(plugin, "__dict__")


def _finder(holder: Any, name: str) -> Callable[[], Any]:
    """Return what finds the function that a wrapper hides, as a caller would find it.

    It is called each time, and `transitions` of a scheduler often.
    """
    if name in vars(holder):
        before = vars(holder)[name]
        return lambda: before
    kind, bind = type(holder), types.MethodType
    found = inspect.getattr_static(kind, name)
    if isinstance(found, types.FunctionType):
        return lambda: bind(getattr(kind, name), holder)
    return lambda: found.__get__(holder, kind)


def _put_back(holder: Any, name: str, wrapper: Any, before: Mapping[str, Any]) -> None:
    """Undo a wrapper, unless somebody has replaced it."""
    if vars(holder).get(name) is not wrapper:
        return
    if name in before:
        setattr(holder, name, before[name])
    else:
        delattr(holder, name)
