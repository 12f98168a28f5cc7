"""Reader of the files of the backend `counts`."""

from __future__ import annotations

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import UNREADABLE


class CountsFile(msgspec.Struct, frozen=True):
    """Counts over one recording."""

    schedprof_counts: int
    """Version of the format."""
    python: str
    """Python's version; bytecodes of two minor versions are never compared."""
    functions: dict[str, dict[str, int]]
    whole: dict[str, int]


def read_counts(content: bytes) -> CountsFile:
    """Parse a file of counts.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    try:
        return msgspec.json.decode(content, type=CountsFile)
    except UNREADABLE as error:
        raise FormatError(
            f"schedprof: not a file of counts: {error} ({len(content)} bytes)"
        ) from error
