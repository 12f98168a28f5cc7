"""The form in which a ring leaves the scheduler: compressed JSON."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

VERSION = 1

LEVEL = 1


@dataclass(frozen=True, slots=True)
class Request:
    """Why a run is written."""

    kind: str
    """`stall`, `lag`, `core`, `exception`, `exit` or `asked`."""
    why: str


@dataclass(frozen=True, slots=True)
class Origin:
    """The scheduler that the ring is of."""

    address: str
    event_loop: str
    interval: float
    """CPU seconds between two samples."""
    no_samples: str
    """Why no samples were taken; else empty."""


def as_packed(content: bytes) -> bytes:
    """Compress JSON."""
    return zlib.compress(content, LEVEL)


def unpack(content: bytes) -> dict[str, Any]:
    """Return what was packed.

    Raises:
        ValueError: it is not readable, or of another version.
    """
    try:
        record: dict[str, Any] = json.loads(zlib.decompress(content))
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if record.get("schedprof_blackbox") != VERSION:
        raise ValueError("it is of another version of pytest-schedprof")
    return record
