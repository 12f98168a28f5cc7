"""Reader of the files of the backend `gil`."""

from __future__ import annotations

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import UNREADABLE

MOST = 10**12
"""Largest number of samples."""


class GilFile(msgspec.Struct, frozen=True):
    """Samples of the event loop's thread in one recording."""

    schedprof_gil: int
    """Version of the format."""
    working: int
    waiting: int
    """Samples in which it waited for the GIL."""
    idle: int
    """Samples in which it waited for work, or for another lock."""
    early: bool = False
    """Whether the sampler ended before the recording did."""

    @property
    def busy(self) -> int:
        """Samples in which it had work."""
        return self.working + self.waiting

    @property
    def share(self) -> float:
        """Part of the time with work in which it waited for the GIL."""
        return self.waiting / self.busy if self.busy else 0.0


def read_gil(content: bytes) -> GilFile:
    """Parse a file of samples.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    try:
        found = msgspec.json.decode(content, type=GilFile)
    except UNREADABLE as error:
        raise FormatError(f"schedprof: not a file of gil: {error}") from error
    numbers = (found.working, found.waiting, found.idle)
    if not 0 <= min(numbers) <= max(numbers) <= MOST:
        raise FormatError(f"schedprof: not a file of gil: {numbers} cannot be")
    return found
