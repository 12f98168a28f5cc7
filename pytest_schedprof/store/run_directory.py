"""The directory of one run, `DIR/<run>/tests/<name>/`. No file in it is ever partial."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from pytest_schedprof.errors import ArtifactError

if sys.platform != "win32":
    import fcntl

RUN_FILE, RESULT_FILE = "run.json", "result.json"
"""Names of the records of a run and of a test."""

PAGE = "index.html"
"""Name of the page of either, beside its record."""

AGAINST = "against"
"""Directory of the other side of a test that ran in turns, beside its record."""


def new_run_id() -> str:
    """Return an ID that sorts by time and is unique.

    Four of its last digits are parts of the second, so that the latest of several quick sessions
    is the last one.
    """
    now = time.time()
    second = time.strftime("%Y%m%dT%H%M%S", time.localtime(now))
    return f"{second}-{int(now % 1 * 0x10000):04x}{os.urandom(1).hex()}"


class RunDirectory:
    """The artifacts of one pytest session."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.root = root
        self.run_id = run_id
        self.path = root / run_id

    def prepare(self) -> None:
        """Create the directory, and a .gitignore in a root directory that did not exist.

        Raises:
            ArtifactError: if it cannot be written to.
        """
        is_new = not os.path.exists(self.root)  # an existing directory belongs to the user
        make_directory(self.path)
        path = self.root / ".gitignore"
        try:
            if is_new:
                write(path, b"# made by pytest-schedprof\n*\n")
        except ArtifactError:
            if not path.exists():  # otherwise another pytest-xdist worker has written it
                raise

    def new_test(self, test_id: str) -> Path:
        """Create a directory for a test; a second attempt at the same test gets its own."""
        name = safe_name(test_id)
        try:
            for attempt in range(1, 1001):
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


def write(path: Path, content: bytes, *, is_durable: bool = False) -> None:
    """Write a file completely or not at all; of several writers at a time one wins.

    Args:
        is_durable: wait until the disk has the content, so that a power cut cannot leave an empty
            file in the place of an earlier one.

    Raises:
        ArtifactError: if it cannot be written; no partial file is left.
    """
    part = _part_of(path)
    try:
        with open(part, "xb") as file:  # a link that lies in wait at this place is not followed
            file.write(content)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:  # also a Ctrl-C, or a test's timeout
        with suppress(OSError):  # it may not have been created
            part.unlink()
        if isinstance(error, OSError):
            raise _failure(path, error) from error
        raise


def _part_of(path: Path) -> Path:
    """Return a name for the unfinished file that no other writer uses."""
    return path.with_name(f"{path.name}.{os.urandom(4).hex()}.part")


LOCK_S = 30.0
"""How long to wait for a lock. It is held for milliseconds: who holds it longer hangs."""

LOCK_POLL_S = 0.01
"""Seconds between attempts to take a lock: waiting inside the system would have no time limit."""


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other processes from changing files of the directory that are read and written back.

    There is no protection where the operating system or the file system has no locks.

    Raises:
        ArtifactError: if another process holds the lock too long.
    """
    if sys.platform == "win32":
        yield
        return
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise _failure(directory, error) from error
    try:
        _lock(directory, descriptor)
        yield
    finally:
        os.close(descriptor)  # which releases the lock


def _lock(directory: Path, descriptor: int) -> None:
    """Wait for the lock of a directory that is open as this descriptor."""
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ArtifactError(
                    f"schedprof: cannot write to {str(directory)!r}: another process has had it "
                    f"locked for {LOCK_S:g} s; end that process, or choose another directory"
                ) from None
            time.sleep(LOCK_POLL_S)
        except OSError:
            return  # a file system without locks


def make_directory(path: Path) -> None:
    """Create a directory and its parents if they do not exist.

    Raises:
        ArtifactError: if it cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _failure(path, error) from error


def check_room(path: Path) -> None:
    """Raise ArtifactError if the file could not be written; leaves no file."""
    part = _part_of(path)
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
        "make room or choose another directory (in pytest with --schedprof-dir, --schedprof-save)"
    )


MAX_SLUG = 120
"""Well below the 255 bytes that a file system allows, because the path around it counts too."""


def safe_name(test_id: str) -> str:
    """Return a directory name for a test: an ASCII slug and a hash of the exact ID.

    The hash makes the name unique: IDs that differ only in case, or in characters that a slug
    cannot hold, get different names on every file system.
    """
    digest = blake2b(test_id.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    slug = re.sub(r"[^A-Za-z0-9_.]+", "-", test_id.replace("::", "-")).strip("-.")
    return f"{slug[:MAX_SLUG].rstrip('-.') or 'test'}-{digest}"


STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Variable with the path of the file to which a step appends its summary."""


def write_summary(run: Path, text: str) -> str:
    """Write the summary; return what went wrong with the job's page, which fails nothing.

    Raises:
        ArtifactError: if the run's own file cannot be written.
    """
    content = text.encode("utf-8", "backslashreplace")
    write(run / "summary.md", content)
    page = os.environ.get(STEP_SUMMARY)
    if not page:
        return ""
    try:
        with open(page, "ab") as file:
            file.write(content + b"\n")
    except OSError as error:
        return (
            f"schedprof: cannot append the summary to {page!r} (${STEP_SUMMARY}): {error.strerror}"
        )
    return ""
