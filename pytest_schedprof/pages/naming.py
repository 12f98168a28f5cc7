"""Names of functions in a file of samples, read after the scheduler has ended.

A record lists every function that was seen, by the scheduler's name for it. Each way to read a
file's path as a module is tried until one gives a function of the record. Other files below the
same entry of the scheduler's path are then named relative to that entry.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache, cached_property

from pytest_schedprof.model.profile import CodeLocation, Function

_PATH_ENTRY = re.compile(r".*/(?:site-packages|dist-packages|lib/python3\.\d+)/")


class Names:
    """Map places in a file of samples to the functions of one record."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self._known = frozenset(functions)
        self._entries: set[str] = set()

    def __call__(self, places: Sequence[CodeLocation]) -> list[Function]:
        """Return `module:qualname` of each place."""
        found = [self._recorded(file, name) for file, name, _ in places]
        return [
            each or f"{self._module(file)}:{name}"
            for each, (file, name, _) in zip(found, places, strict=True)
        ]

    @cached_property
    def _aliases(self) -> dict[tuple[str, str], list[Function]]:
        """Functions by last part of the module and name: `tlz` loads modules under its own name."""
        found: dict[tuple[str, str], list[Function]] = defaultdict(list)
        for function in sorted(self._known):
            module, _, name = function.partition(":")
            found[module.rpartition(".")[2], name].append(function)
        return found

    def _recorded(self, file: str, name: str) -> Function | None:
        for entry, module in _readings(file):
            function = f"{module}:{name}"
            if function in self._known:
                self._entries.add(entry)
                return function
        stem = module.rpartition(".")[2]
        return next(iter(self._aliases.get((stem, name), ())), None)

    def _module(self, file: str) -> str:
        """Return the module of a function that the record lacks, such as one that only waits."""
        readings = _readings(file)
        # The longest entry first, which gives the shortest module name.
        for entry, module in reversed(readings):
            if (entry and entry in self._entries) or _PATH_ENTRY.fullmatch(entry):
                return module
        return readings[-1][1]


@cache
def _readings(file: str) -> tuple[tuple[str, str], ...]:
    """Return each `sys.path` entry that may contain the file, and the module name under it."""
    if file.startswith("<frozen "):
        return (("", file[len("<frozen ") : -1]),)
    path = file.replace("\\", "/")
    stem = re.sub(r"(/__init__)?\.py$", "", path)
    starts = [0, *(match.end() for match in re.finditer("/", stem))]
    return tuple((path[:start], stem[start:].replace("/", ".")) for start in starts)
