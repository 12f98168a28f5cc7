"""What of the agent arrives first in a target's process: it makes modules of the others' source.

Source, for what is pickled by value is of one minor version of Python alone. It comes with every
call; who has it already does not read it again.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

OLDEST = (3, 10)


class Unpacked(MetaPathFinder, Loader):
    """Finds the modules that came."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.sources: dict[str, tuple[str, str]] = {}
        """Path, as it is where they come from, and text."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Of these alone."""
        if name not in self.sources:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=name == self.package)

    def exec_module(self, module: ModuleType) -> None:
        """Under the path where they come from, by which profilers know code."""
        module.__file__, source = self.sources[module.__name__]
        exec(compile(source, module.__file__, "exec", dont_inherit=True), vars(module))


def unpack(module: str, package: str, sources: dict[str, tuple[str, str]]) -> ModuleType:
    """One of the modules, which can import the others."""
    if sys.version_info < OLDEST:
        raise RuntimeError(f"Python {sys.version.split()[0]} is too old, 3.10 is needed")
    found: list[Any] = [
        finder for finder in sys.meta_path if getattr(finder, "package", "") == package
    ]
    if not found:  # last in the row, so that no other import waits
        found = [Unpacked(package)]
        sys.meta_path.extend(found)
    found[0].sources.update(sources)
    return importlib.import_module(module)
