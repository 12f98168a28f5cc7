"""What would be random in the test's process, and is the cluster's while there is one.

Random names that dask draws in governed threads are the conductor's, futures are named by their
tasks, and dask's estimates of sizes take the same samples in each run. What a test or a plugin of
pytest draws stays random: a file of such a name must be another one in each test.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from dask import sizeof as sizeof_module
from distributed import Future

from pytest_schedprof.virtual.conductor import Conductor

DRAWING = ("cloudpickle", "dask", "distributed", "pytest_schedprof.workloads")
"""Packages whose random names are the cluster's. They are told by who calls, because dask imports
many of its modules late, when their references to `uuid` could not be replaced any more."""

Replacement = tuple[Any, str, Any]
"""An object, the name of an attribute, and what it is replaced by."""


def replacements_of_chance(governor: Callable[[], Conductor | None]) -> list[Replacement]:
    """Return what is replaced.

    Args:
        governor: returns the conductor that governs the calling thread, if any.
    """
    names = _Names(governor)
    return [
        (uuid, "uuid1", names.uuid1),
        (os, "urandom", names.urandom),
        (sizeof_module, "random", EvenSamples),
        (Future, "__dask_tokenize__", _tokenize_future),
    ]


_REAL_UUID1 = uuid.uuid1
_REAL_URANDOM = os.urandom


class _Names:
    """Random names, which are the cluster's where dask draws them in a governed thread."""

    def __init__(self, governor: Callable[[], Conductor | None]) -> None:
        self._governor = governor

    def uuid1(self, *args: Any, **keywords: Any) -> uuid.UUID:
        """Make a name."""
        return self._of_place(sys._getframe(1)) or _REAL_UUID1(*args, **keywords)

    def urandom(self, size: int, /) -> bytes:
        """Return random bytes; what `uuid4` makes of them is the cluster's name.

        Replaced is what `uuid4` calls, because modules may have imported `uuid4` by its name.
        """
        caller = sys._getframe(1)
        if caller.f_globals is not vars(uuid) or caller.f_back is None:
            return _REAL_URANDOM(size)
        name = self._of_place(caller.f_back)
        return _REAL_URANDOM(size) if name is None else name.bytes

    def _of_place(self, caller: FrameType) -> uuid.UUID | None:
        """Return the cluster's random name for a line of dask's, if its thread is governed."""
        module = str(caller.f_globals.get("__name__"))
        if not _draws(module) or (conductor := self._governor()) is None:
            return None
        return conductor.make_name(f"{module}:{caller.f_code.co_name}", caller.f_lineno)


def _draws(module: str) -> bool:
    """Whether random names of a module are the cluster's; those of dask's own tests are not."""
    return f"{module}.".startswith(tuple(f"{each}." for each in DRAWING)) and (
        ".tests." not in module
    )


def _tokenize_future(self: Any) -> tuple[str, Any]:
    """Name a future by its task, and not by a number that depends on the order of a set."""
    return type(self).__name__, self.key


class EvenSamples:
    """Stands for `random` in dask's estimate of the size of a large list.

    With random samples, sending the same message would take other bytecodes in each run.
    """

    @staticmethod
    def sample(population: Sequence[Any], count: int) -> list[Any]:
        """Return items at equal distances."""
        return [population[number * len(population) // count] for number in range(count)]
