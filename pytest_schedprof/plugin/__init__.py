"""The pytest plugin: hooks, fixtures, and everything else that imports pytest.

pytest imports `hooks.py` at every start, in every project where this package is installed. So the
hooks import at the top only what each session needs, and reach everything else through this
package: `plugin.running` is the module `plugin/running.py`, imported when it is first used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_schedprof import errors
    from pytest_schedprof.clusters import child
    from pytest_schedprof.clusters import options as cluster_options
    from pytest_schedprof.measuring import plan, settings
    from pytest_schedprof.plugin import against, calm, collecting, running

    __all__ = [
        "against",
        "calm",
        "child",
        "cluster_options",
        "collecting",
        "errors",
        "plan",
        "running",
        "settings",
    ]

MODULES = {
    "against": "plugin.against",
    "calm": "plugin.calm",
    "child": "clusters.child",
    "cluster_options": "clusters.options",
    "collecting": "plugin.collecting",
    "errors": "errors",
    "plan": "measuring.plan",
    "running": "plugin.running",
    "settings": "measuring.settings",
}
"""The modules above, for the interpreter."""


class PlainFinder:
    """Lets Python import the rest of this package.

    pytest rewrites the asserts of plugins, which here check nothing for a user, and reads the
    modules that it has rewritten in three times the time of Python.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        is_ours = name.startswith("pytest_schedprof.")
        return PathFinder.find_spec(name, path) if is_ours else None


sys.meta_path.insert(0, PlainFinder)


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = globals()[name] = import_module(f"pytest_schedprof.{MODULES[name]}")
    return module
