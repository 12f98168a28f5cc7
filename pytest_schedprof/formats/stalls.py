"""Reader of the files of the backend `stalls`."""

from __future__ import annotations

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import UNREADABLE


class Longest(msgspec.Struct, frozen=True):
    """The longest callback of a function, in seconds."""

    cpu: float
    wall: float


class StallsFile(msgspec.Struct, frozen=True):
    """Durations of callbacks in one recording, in seconds."""

    schedprof_stalls: int
    """Version of the format."""
    callbacks: int
    cpu: float
    """CPU time of all callbacks, without the collector's."""
    longest: float
    longest_wall: float
    percentiles: dict[str, float]
    functions: dict[str, Longest]
    pauses: int
    """Number of garbage collections."""
    paused: float
    """CPU time of all of them."""
    longest_pause: float


def read_stalls(content: bytes) -> StallsFile:
    """Parse a file of durations.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    try:
        return msgspec.json.decode(content, type=StallsFile)
    except UNREADABLE as error:
        raise FormatError(
            f"schedprof: not a file of durations: {error} ({len(content)} bytes)"
        ) from error
