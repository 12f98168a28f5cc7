"""When a file of a recording is followed by the next one."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from dask.utils import parse_bytes, parse_timedelta


@dataclass(frozen=True, slots=True)
class Limit:
    """When a file is followed by another one."""

    nbytes: float = math.inf
    seconds: float = math.inf


NO_LIMIT = Limit()


def read_limit(text: str) -> Limit:
    """Read a size such as 100MB, or a time such as 1h.

    Raises:
        ValueError: it is neither.
    """
    is_size = text.strip().upper().endswith("B")
    try:
        value = float(parse_bytes(text) if is_size else parse_timedelta(text, default="s"))
    except (ValueError, KeyError):
        value = 0.0
    if not value > 0:
        raise ValueError(f"{text!r} is no size such as 100MB and no time such as 1h")
    return Limit(nbytes=value) if is_size else Limit(seconds=value)


class Filling:
    """How full the file is that is being written."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self.begin()

    def begin(self) -> None:
        """Begin with an empty file."""
        self._begun, self._size, self._has_turned = time.monotonic(), 0, False

    def add(self, nbytes: int) -> None:
        """Count bytes that were written."""
        self._size += nbytes

    def turn(self) -> None:
        """Note that the next file is on its way."""
        self._has_turned = True

    def is_full(self) -> bool:
        """Whether the file has its size or its age, and the next one is not on its way."""
        age = time.monotonic() - self._begun
        is_full = self._size >= self._limit.nbytes or age >= self._limit.seconds
        return is_full and not self._has_turned
