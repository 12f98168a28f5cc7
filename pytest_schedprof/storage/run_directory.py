"""The directory of one run: `DIR/<run>/tests/<name>/`, made when the first artifact is kept."""

from __future__ import annotations

import errno
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.storage.names import safe_name


def new_run_id() -> str:
    """Sorts by time; two sessions that start in the same second do not meet."""
    return f"{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(3)}"


class RunDirectory:
    """Artifacts of one pytest session. Every file is written whole or not at all."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.root = root
        self.run_id = run_id
        self.path = root / run_id

    def prepare(self) -> None:
        """Make the directory, and make git ignore what is under the root.

        Raises:
            ArtifactError: if it cannot be written to.
        """
        is_new = not self.root.exists()  # a directory that was there is the user's own
        make_directory(self.path)
        if is_new:
            self._make_git_ignore_it()

    def _make_git_ignore_it(self) -> None:
        path = self.root / ".gitignore"
        try:
            write(path, b"# made by pytest-schedprof\n*\n")
        except ArtifactError:
            if not path.exists():  # else another of pytest-xdist's workers was quicker
                raise

    def new_test(self, test_id: str) -> Path:
        """A fresh directory for a test; a second attempt at the same test gets its own."""
        name = safe_name(test_id)
        try:
            for attempt in range(1, 1000):
                path = self.path / "tests" / (name if attempt == 1 else f"{name}.{attempt}")
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    path.mkdir()
                except FileExistsError:
                    continue
                return path
        except OSError as error:
            raise _failure(self.path, error) from error
        raise ArtifactError(f"schedprof: 1000 attempts at {test_id!r} in one run")


def write(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all.

    Raises:
        ArtifactError: if it cannot be written; nothing is left half done.
    """
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):  # it may never have come to be
            part.unlink()
        raise _failure(path, error) from error


def make_directory(path: Path) -> None:
    """Make a directory, and those above it, where there is none.

    Raises:
        ArtifactError: if it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _failure(path, error) from error


def check_room(path: Path) -> None:
    """Raises ArtifactError if the file could not be written now; leaves nothing."""
    part = path.with_name(path.name + ".part")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        part.touch()
        part.unlink()
    except OSError as error:
        raise _failure(path, error) from error


def _failure(path: Path, error: OSError) -> ArtifactError:
    return ArtifactError(
        f"schedprof: cannot write {str(path)!r}: {error.strerror}; "
        "make room or choose another place (in pytest with --schedprof-dir)"
    )
