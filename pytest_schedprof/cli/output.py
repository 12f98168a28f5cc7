"""Print: the only module of the command `schedprof` that writes text to a terminal."""

from __future__ import annotations

import sys
from typing import TextIO

from pytest_schedprof.errors import printable


def say(text: object = "", file: TextIO | None = None) -> None:
    """Print text; what the terminal would obey or cannot show is escaped."""
    stream = file or sys.stdout
    print(printable(str(text), stream.encoding or "utf-8"), file=stream, flush=True)


def complain(text: object) -> None:
    """Print text on standard error."""
    say(text, sys.stderr)
