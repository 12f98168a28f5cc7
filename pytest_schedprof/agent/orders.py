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
from contextlib import ExitStack
from typing import Any

from .choice import any_of
from .patches import replace

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


def put_in_order(modules: Iterable[str], undo: ExitStack) -> None:
    """Replace the constants of the modules whose names match, and `hash` where tasks use it."""
    is_chosen = any_of(modules)
    for name, module in list(sys.modules.items()):
        if module is not None and is_chosen(name):
            for constant, value in list(vars(module).items()):
                kind = KINDS.get(type(value)) if constant.isupper() else None
                if kind and all(isinstance(element, str) for element in value):
                    replace(vars(module), constant, kind(value), undo)
    if HASHING in sys.modules:
        replace(vars(sys.modules[HASHING]), "hash", unseeded_hash, undo)
