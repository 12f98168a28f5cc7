"""Reader of the files of the backend `intake`."""

from __future__ import annotations

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import UNREADABLE


class StepCost(msgspec.Struct, frozen=True):
    """What one step cost in one recording."""

    calls: int
    cpu: float
    """Seconds of CPU time, without steps inside of it."""


class IntakeFile(msgspec.Struct, frozen=True):
    """Costs of the steps of graph intake in one recording."""

    schedprof_intake: int
    """Version of the format."""
    steps: dict[str, StepCost]
    """All steps that the scheduler's release has."""


def read_intake(content: bytes) -> IntakeFile:
    """Parse a file of steps.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    try:
        return msgspec.json.decode(content, type=IntakeFile)
    except UNREADABLE as error:
        raise FormatError(
            f"schedprof: not a file of steps of graph intake: {error} ({len(content)} bytes)"
        ) from error
