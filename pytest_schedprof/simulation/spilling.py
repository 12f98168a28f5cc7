"""Results of a hollow worker that do not fit into its memory, and what that costs.

As in a real worker, the results used least recently go to disk once all of them take more than a
part of the memory limit. They come back when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

import dask.config
from dask.sizeof import sizeof

from pytest_schedprof.errors import SettingsError

TARGET = "distributed.worker.memory.target"


class SpilledData(dict[Any, Any]):
    """The results of a worker by key; keeps account of the seconds that reads and writes take."""

    def __init__(
        self, room: float, rate: float, note: Callable[[int], None] = lambda nbytes: None
    ) -> None:
        """Take so many bytes of results into memory, and as many a second to or from disk.

        Args:
            note: told the bytes of each result that is written.
        """
        super().__init__()
        self._note = note
        self._room = room
        self._rate = rate
        self._fast: dict[Any, int] = {}
        """Sizes of results in memory, those used least recently first."""
        self._slow: dict[Any, int] = {}
        """Sizes of results on disk."""
        self._in_memory = 0
        self._owed_s = 0.0

    def __setitem__(self, key: Any, value: Any) -> None:
        self._forget(key)
        super().__setitem__(key, value)
        nbytes = getattr(value, "nbytes", None)  # of a placeholder it is what the result would have
        self._keep(key, nbytes if isinstance(nbytes, int) else sizeof(value))

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        self._forget(key)

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove a result."""
        self._forget(key)
        return super().pop(key, *default)

    def read(self, key: Any) -> None:
        """Use a result, which is in memory then."""
        if key in self._slow:
            nbytes = self._slow.pop(key)
            self._owed_s += nbytes / self._rate
            self._keep(key, nbytes)
        elif key in self._fast:
            self._fast[key] = self._fast.pop(key)

    def seconds_owed(self) -> float:
        """Return how long reads and writes took since this was last asked."""
        owed, self._owed_s = self._owed_s, 0.0
        return owed

    @property
    def on_disk(self) -> int:
        """Bytes of results on disk."""
        return sum(self._slow.values())

    def _keep(self, key: Any, nbytes: int) -> None:
        self._fast[key] = nbytes
        self._in_memory += nbytes
        while self._in_memory > self._room and len(self._fast) > 1:
            oldest = next(iter(self._fast))
            self._slow[oldest] = self._fast.pop(oldest)
            self._in_memory -= self._slow[oldest]
            self._owed_s += self._slow[oldest] / self._rate
            self._note(self._slow[oldest])

    def _forget(self, key: Any) -> None:
        self._in_memory -= self._fast.pop(key, 0)
        self._slow.pop(key, None)


def data_of(
    memory_limit: float, disk: float, note: Callable[[int], None] | None = None
) -> dict[Any, Any]:
    """Return where a worker keeps results.

    Without a disk that takes time, results are spilled only if somebody wants to know of it.
    """
    target = target_of_memory()
    if not target or (disk == float("inf") and note is None):
        return {}
    return SpilledData(memory_limit * target, disk, note or (lambda nbytes: None))


def target_of_memory() -> float:
    """Return the part of its memory that a worker fills with results, 0 if it spills none.

    Raises:
        SettingsError: if dask's configuration has something else there.
    """
    target = dask.config.get(TARGET)
    if not isinstance(target, int | float):
        raise SettingsError(f"schedprof: {TARGET} must be false or a number, got {target!r}")
    return float(target)


def seconds_to_read(data: MutableMapping[Any, Any], keys: list[Any]) -> float:
    """Return how long it takes to have these results in memory, with writes put off until now."""
    if not isinstance(data, SpilledData):
        return 0.0
    for key in keys:
        data.read(key)
    return data.seconds_owed()
