"""Read `decisions.json`, what the agent recorded of a cluster in virtual time."""

from __future__ import annotations

import msgspec

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.model.decisions import Decided


def read_decisions(content: bytes) -> Decided:
    """Parse a file of decisions.

    Raises:
        FormatError: if it is none.
    """
    try:
        return msgspec.json.decode(content, type=Decided)
    except UNREADABLE as error:
        raise FormatError(f"schedprof: not a file of decisions: {error}") from error
