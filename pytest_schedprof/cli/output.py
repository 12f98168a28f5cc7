"""Print, and write files: no other module of the command `schedprof` writes to a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from pytest_schedprof.errors import printable


def say(text: object = "", file: TextIO | None = None) -> None:
    """Print text; what the terminal would obey or cannot show is escaped."""
    stream = file or sys.stdout
    print(printable(str(text), stream.encoding or "utf-8"), file=stream, flush=True)


def complain(text: object) -> None:
    """Print text on standard error."""
    say(text, sys.stderr)


def write_output(output: str, content: bytes) -> None:
    """Write the file that a user named.

    Raises:
        ArtifactError: if it cannot be written.
    """
    from pytest_schedprof.storage.run_directory import write

    path = Path(output).resolve()
    if path.exists() and not path.is_file():  # such as /dev/null, or a pipe
        path.write_bytes(content)
    else:
        write(path, content)
