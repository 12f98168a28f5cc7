"""Reader of the files of the backend `perfcount`."""

from __future__ import annotations

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import UNREADABLE


class PerfcountFile(msgspec.Struct, frozen=True):
    """What a counter of the processor counted in one recording."""

    schedprof_perfcount: int
    """Version of the format."""
    instructions: int
    enabled_ns: int
    """For how long it was to count."""
    running_ns: int
    """For how long it did: others may use the processor's counters, too."""

    @property
    def is_complete(self) -> bool:
        """Whether it counted all the time."""
        return self.running_ns == self.enabled_ns

    @property
    def missing(self) -> float:
        """Part of the time in which it did not count."""
        return 1 - self.running_ns / self.enabled_ns if self.enabled_ns else 0.0


def read_perfcount(content: bytes) -> PerfcountFile:
    """Parse a file of a counter.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    try:
        return msgspec.json.decode(content, type=PerfcountFile)
    except UNREADABLE as error:
        raise FormatError(f"schedprof: not a file of perfcount: {error}") from error
