"""Reader of the files of the backend `objects`."""

from __future__ import annotations

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import UNREADABLE


class Reading(msgspec.Struct, frozen=True):
    """What the scheduler's process had at one moment."""

    tasks: int
    blocks: int
    types: dict[str, int]
    """Number of objects by type."""


class ObjectsFile(msgspec.Struct, frozen=True):
    """The readings of one recording."""

    schedprof_objects: int
    """Version of the format."""
    before: Reading
    held: Reading | None
    """When the most tasks were held; None if none was."""
    after: Reading


def read_objects(content: bytes) -> ObjectsFile:
    """Parse a file of readings.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    try:
        return msgspec.json.decode(content, type=ObjectsFile)
    except UNREADABLE as error:
        raise FormatError(
            f"schedprof: not a file of objects: {error} ({len(content)} bytes)"
        ) from error
