"""Makes the order of sets independent of the interpreter's hash seed while it is at work.

The order of a set of strings depends on the hash seed, which is another one in each process unless
`PYTHONHASHSEED` is set. Two kinds of sets decide how much work the scheduler does: constant sets of
strings, such as the names of all task states, which each new task group copies in that order; and
sets of tasks, whose hash is that of their key. Sets of plain keys keep the order of the seed.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from .choice import any_of

HASHING = "distributed.scheduler"
"""The module whose tasks, workers and clients store the hash of their name."""

BUILTIN = hash


class _Sorted:
    """A set of strings whose elements are in alphabetical order."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__()))  # type: ignore[misc]


class SortedSet(_Sorted, set[str]):
    """The same of a `set`."""


class SortedFrozenset(_Sorted, frozenset[str]):
    """The same of a `frozenset`."""


KINDS: dict[type, Any] = {set: SortedSet, frozenset: SortedFrozenset}


def unseeded_hash(value: Any) -> int:
    """Return a hash that is the same in every process; equal values have equal hashes."""
    if isinstance(value, str):
        return zlib.crc32(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, tuple):
        return BUILTIN(tuple(map(unseeded_hash, value)))
    return BUILTIN(value)


class Orders:
    """Replaces constants of modules, and the function `hash` where tasks use it."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.is_chosen = any_of(modules)
        self.originals: list[tuple[dict[str, Any], str, Any]] = []

    def begin(self) -> None:
        """Replace the constants of the modules whose names match, and `hash`."""
        for name, module in list(sys.modules.items()):
            if module is not None and self.is_chosen(name):
                self._sort_constants(vars(module))
        if HASHING in sys.modules:
            vars(sys.modules[HASHING])["hash"] = unseeded_hash

    def _sort_constants(self, names: dict[str, Any]) -> None:
        for name, value in list(names.items()):
            kind = KINDS.get(type(value)) if name.isupper() else None
            if kind and all(isinstance(each, str) for each in value):
                self.originals.append((names, name, value))
                names[name] = kind(value)

    def end(self) -> None:
        """Put the constants and the builtin function back."""
        for names, name, value in self.originals:
            names[name] = value
        self.originals.clear()
        if HASHING in sys.modules:
            vars(sys.modules[HASHING]).pop("hash", None)
