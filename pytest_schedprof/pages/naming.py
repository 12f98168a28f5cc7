"""Names of functions in a file of samples, where the scheduler that knows them is gone.

A record lists every function that was seen, as the scheduler named it. So of a file's path, each
way to read it as a module is tried until one gives a function of the record; and what lies beside
such a file, below the same entry of the scheduler's path, is named alike.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache, cached_property

from pytest_schedprof.model.profile import Function

Place = tuple[str, str, int]
"""File, name and line of a frame."""

_PATH_ENTRY = re.compile(r".*/(?:site-packages|dist-packages|lib/python3\.\d+)/")


class Names:
    """The functions of one record."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self._known = frozenset(functions)
        self._entries: set[str] = set()

    def __call__(self, places: Sequence[Place]) -> list[Function]:
        """`module:qualname` of each place."""
        found = [self._recorded(file, name) for file, name, _ in places]
        return [
            each or f"{self._module(file)}:{name}"
            for each, (file, name, _) in zip(found, places, strict=True)
        ]

    @cached_property
    def _short(self) -> dict[tuple[str, str], list[Function]]:
        """By module and the last part of the name: before Python 3.11 profilers tell no more."""
        found: dict[tuple[str, str], list[Function]] = defaultdict(list)
        for function in sorted(self._known):
            module, _, name = function.partition(":")
            found[module, name.rpartition(".")[2]].append(function)
        return found

    @cached_property
    def _aliases(self) -> dict[tuple[str, str], list[Function]]:
        """By the last part of the module: one may be loaded by another's name, as `tlz` loads."""
        found: dict[tuple[str, str], list[Function]] = defaultdict(list)
        for function in sorted(self._known):
            module, _, name = function.partition(":")
            found[module.rpartition(".")[2], name].append(function)
        return found

    def _recorded(self, file: str, name: str) -> Function | None:
        for entry, module in _readings(file):
            function = self._in(module, name)
            if function:
                self._entries.add(entry)
                return function
        stem = module.rpartition(".")[2]
        return next(iter(self._aliases.get((stem, name), ())), None)

    def _in(self, module: str, name: str) -> Function | None:
        if f"{module}:{name}" in self._known:
            return f"{module}:{name}"
        found = self._short.get((module, name), [])
        return found[0] if len(found) == 1 else None  # of several it is not known which

    def _module(self, file: str) -> str:
        """Of a function that is in no record, as those that only wait."""
        readings = _readings(file)
        for entry, module in reversed(readings):  # the longest entry counts, as for Python itself
            if (entry and entry in self._entries) or _PATH_ENTRY.fullmatch(entry):
                return module
        return readings[-1][1]


@cache
def _readings(file: str) -> tuple[tuple[str, str], ...]:
    """Each entry of a path that the file may lie below, and the module that it is then."""
    if file.startswith("<frozen "):
        return (("", file[len("<frozen ") : -1]),)
    path = file.replace("\\", "/")
    stem = re.sub(r"(/__init__)?\.py$", "", path)
    starts = [0, *(match.end() for match in re.finditer("/", stem))]
    return tuple((path[:start], stem[start:].replace("/", ".")) for start in starts)
