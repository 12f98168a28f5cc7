"""Readers and writers of profile files. Pure: bytes in, data out."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from pytest_schedprof.errors import FormatError

T = TypeVar("T")

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised for bytes that are no JSON, no UTF-8, or nested too deeply."""


def read_json(content: bytes, kind: type[T], subject: str) -> T:
    """Parse a JSON file of our own.

    Args:
        subject: what the file is of, for the message.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except UNREADABLE as error:
        raise FormatError(
            f"schedprof: not a file of {subject}: {error} ({len(content)} bytes)"
        ) from error
