"""Read files of which only the name is known, and find files that a record names.

A record may come from anywhere, such as the artifacts of a CI job for a pull request.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

from pytest_schedprof.errors import ArtifactError

MOST_BYTES = 2**31
"""Largest file that is read into memory."""


def read_file(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: if it cannot be opened.
        ArtifactError: if it is a device, a pipe or a socket, or too large.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ArtifactError(f"schedprof: cannot read {str(path)!r}: it is not a regular file")
        if status.st_size > MOST_BYTES:
            raise ArtifactError(
                f"schedprof: cannot read {str(path)!r}: it has {status.st_size} bytes, "
                f"the most that is read is {MOST_BYTES}"
            )
        return file.read(MOST_BYTES)


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting for the writer of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_kept(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        ArtifactError: if it cannot be read; says why.
    """
    try:
        return read_file(path)
    except (OSError, ValueError) as error:
        raise ArtifactError(f"schedprof: cannot read {str(path)!r}: {reason(error)}") from error


def reason(error: OSError | ValueError) -> str:
    """Return why the system refused a path; a ValueError is about a NUL or a wrong encoding."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def is_below(name: str) -> bool:
    """Whether a path from a record leads to a place below the directory that it is relative to."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and "\0" not in name


def inside(directory: Path, name: str) -> Path:
    """Return the path of a file or directory that a record names.

    Raises:
        ArtifactError: if it is outside of the directory, also through a symbolic link.
    """
    path = directory / name
    try:
        is_inside = is_below(name) and path.resolve().is_relative_to(directory.resolve())
    except (OSError, RuntimeError):  # links that form a circle
        is_inside = False
    if not is_inside:
        raise ArtifactError(f"schedprof: {name!r} is not inside of {str(directory)!r}")
    return path
