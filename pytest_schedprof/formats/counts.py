"""Reader of the files of the backend `counts`."""

from __future__ import annotations

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats.json import UNREADABLE


class CountsFile(msgspec.Struct, frozen=True):
    """Counts over one recording."""

    schedprof_counts: int
    """Version of the format."""
    python: str
    """Bytecodes of two minor versions are never compared."""
    functions: dict[str, dict[str, int]]
    whole: dict[str, int]


def read_counts(content: bytes) -> CountsFile:
    """Parse such a file.

    Raises:
        FormatError: if the bytes are no such file.
    """
    try:
        return msgspec.json.decode(content, type=CountsFile)
    except UNREADABLE as error:
        raise FormatError(
            f"schedprof: not a file of counts: {error} ({len(content)} bytes)"
        ) from error
