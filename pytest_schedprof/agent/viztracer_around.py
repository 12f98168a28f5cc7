"""What viztracer can do around a trace: plugins, printed text, the global tracer, and sources."""

from __future__ import annotations

import builtins
import json
import pickle
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import Any

GLOBAL = "__viz_tracer__"
"""Name among the builtins by which `viztracer.get_tracer()` finds the tracer."""


class PluginError(Exception):
    """A plugin of viztracer that cannot be loaded."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason


class Around:
    """Options of viztracer that do something before, after or beside the trace itself."""

    def __init__(self, tracer: Any, wanted: dict[str, Any]) -> None:
        """Load the plugins.

        Raises:
            PluginError: for one that cannot be loaded.
        """
        self.tracer, self.wanted = tracer, wanted
        self.plugins = [loaded(tracer, *each) for each in wanted["plugins"]]
        """A manager of viztracer for each."""

    def begin(self) -> Callable[[], None]:
        """Begin to do it, and return a function that ends it."""
        undo = ExitStack()
        if self.wanted["register_global"]:
            undo.callback(named_globally(self.tracer))
        if self.wanted["log_print"]:
            self.tracer.overload_print()
            undo.callback(self.tracer.restore_print)
        self.tell_plugins("pre-start")
        undo.callback(self.tell_plugins, "post-stop")
        return undo.close

    def tell_plugins(self, when: str) -> None:
        """Tell all plugins that something happens."""
        for plugin in self.plugins:
            plugin.event(when)

    def close(self) -> None:
        """End all plugins."""
        while self.plugins:
            self.plugins.pop().terminate()

    def dump(self, path: str) -> None:
        """Write the trace; what plugins or sources change is made of Python objects, slowly."""
        if not (self.plugins or self.wanted["file_info"]):
            self.tracer.dump(path)
            return
        self.tracer.parsed = False
        self.tracer.parse()
        self.tell_plugins("pre-save")
        data = prepared(self.tracer.data, with_sources=self.wanted["file_info"])
        self.tracer.data = {}
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
        with open(path, "wb") as file:
            file.write(text.encode("utf-8", "replace"))


def loaded(tracer: Any, name: str, pickled: bytes) -> Any:
    """Return viztracer's manager of a plugin. For a missing one it would end the process."""
    try:
        plugin = pickle.loads(pickled)
        return import_module("viztracer.vizplugin").VizPluginManager(tracer, [plugin])
    except SystemExit:
        raise PluginError(name, "viztracer found no such plugin") from None
    except Exception as error:
        raise PluginError(name, f"{type(error).__name__}: {error}") from error


def named_globally(tracer: Any) -> Callable[[], None]:
    """Let `viztracer.get_tracer()` return the tracer; return a function that undoes it."""
    before = vars(builtins).get(GLOBAL)
    tracer.register_global()

    def undo() -> None:
        if before is None:
            vars(builtins).pop(GLOBAL, None)
        else:
            vars(builtins)[GLOBAL] = before

    return undo


def prepared(data: dict[str, Any], *, with_sources: bool) -> dict[str, Any]:
    """Return a trace with the sources of its functions, and last what tells that it overflowed."""
    builder = import_module("viztracer.report_builder").ReportBuilder(data, verbose=0)
    builder.prepare_json(file_info=with_sources)
    made = dict(builder.combined_json)
    metadata = made.pop("viztracer_metadata")
    return {**made, "viztracer_metadata": metadata}
