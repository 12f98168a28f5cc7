"""The part of the agent that arrives first in a target's process: makes modules of source.

Source is sent because code pickled by value works only in the same minor version of Python. It
comes with every call, and a process that has the modules does not read it again.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

OLDEST = (3, 11)


class Unpacked(MetaPathFinder, Loader):
    """Finds and loads the modules that were sent."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.sources: dict[str, tuple[str, str]] = {}
        """Path on the sending machine, and text, by the module's name."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Resolve shipped agent modules only."""
        if name not in self.sources:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=name == self.package)

    def exec_module(self, module: ModuleType) -> None:
        """Execute a module under its original path, by which profilers identify code."""
        module.__file__, source = self.sources[module.__name__]
        exec(compile(source, module.__file__, "exec", dont_inherit=True), vars(module))


def unpack(module: str, package: str, sources: dict[str, tuple[str, str]]) -> ModuleType:
    """Import one of the modules; it can import the others."""
    if sys.version_info < OLDEST:
        raise RuntimeError(f"Python {sys.version.split()[0]} is too old, 3.11 is needed")
    finders: list[Any] = [
        finder for finder in sys.meta_path if getattr(finder, "package", "") == package
    ]
    if not finders:  # last, so that other imports are not slowed down
        finders = [Unpacked(package)]
        sys.meta_path.extend(finders)
    finders[0].sources.update(sources)
    return importlib.import_module(module)
