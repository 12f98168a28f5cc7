"""Files and directories at paths and at any URL that fsspec can open."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from msgspec import Struct

from pytest_schedprof.errors import ArtifactError, without_secrets
from pytest_schedprof.store.run_directory import locked, make_directory, write

MOST_BYTES = 2**31
"""Largest file that is read into memory."""


def read_file(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: if it cannot be opened.
        ArtifactError: if it is a device, a pipe or a socket, or too large.
    """
    # Without waiting for the writer of a pipe.
    at_once = getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | at_once)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ArtifactError(f"schedprof: cannot read {str(path)!r}: it is not a regular file")
        if status.st_size > MOST_BYTES:
            raise ArtifactError(
                f"schedprof: cannot read {str(path)!r}: it has {status.st_size} bytes, "
                f"the most that is read is {MOST_BYTES}"
            )
        return file.read(MOST_BYTES)


def read_kept(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        ArtifactError: if it cannot be read; says why.
    """
    try:
        return read_file(path)
    except (OSError, ValueError) as error:  # of a path with a NUL, or in a wrong encoding
        why = getattr(error, "strerror", None) or error
        raise ArtifactError(f"schedprof: cannot read {str(path)!r}: {why}") from error


def is_below(name: str) -> bool:
    """Whether a path from a record leads to a place below the directory that it is relative to."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return bool(parts) and parts[0][0] != "/" and ".." not in parts and "\0" not in name


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


T = TypeVar("T")

ANSWER_S = 30.0
"""Time limit for answers over http."""


class Folder(Struct, frozen=True):
    """A file or directory at a path or a URL."""

    place: str
    """A path, or a URL of a protocol that fsspec knows: s3, gs, abfs, http, memory, ..."""

    @property
    def is_url(self) -> bool:
        return "://" in self.place

    def __truediv__(self, name: str) -> Folder:
        return Folder(f"{self.place.rstrip('/')}/{name}")

    def __str__(self) -> str:
        """Return the place for messages and records."""
        return without_secrets(self.place)

    @property
    def parent(self) -> Folder:
        above, slash, _ = self.place.rstrip("/").rpartition("/")
        return Folder(above or slash or ".")

    @property
    def name(self) -> str:
        """The last part of the path, without the query of a URL."""
        path = self.place.partition("?")[0] if self.is_url else self.place
        return path.rstrip("/").rpartition("/")[2]

    def read(self) -> bytes:
        """Return the file's content.

        Raises:
            ArtifactError: if it does not exist or cannot be reached.
        """
        return self._ask("read", _content)

    def exists(self) -> bool:
        return bool(self._ask("read", lambda fs, path: fs.exists(path)))

    def is_file(self) -> bool:
        return bool(self._ask("read", lambda fs, path: fs.isfile(path)))

    def is_directory(self) -> bool:
        return bool(self._ask("read", lambda fs, path: fs.isdir(path)))

    def files(self, pattern: str) -> list[Folder]:
        """Return the files below it whose relative paths match the pattern, sorted."""
        depth = pattern.count("/")

        def find(fs: Any, path: str) -> list[str]:
            # Not the file system's own glob: the path itself may contain a bracket.
            start = len(path.rstrip("/")) + 1
            files = fs.find(path, maxdepth=depth + 1)
            return [file for file in files if _matches(file[start:], pattern)]

        return self._folders(self._ask("list", find))

    def below(self, name: str) -> list[Folder]:
        """Return all files of that name at any depth, sorted; or the file itself if it is one."""
        files = self._folders(self._ask("list", lambda fs, path: fs.find(path)))
        return [file for file in files if file.name == name]

    def _folders(self, paths: Iterable[str]) -> list[Folder]:
        """Return folders with the protocol, which some file systems leave out."""
        root = self.place.partition("://")[0] + "://" if self.is_url else ""
        return [Folder(path if "://" in path else root + path) for path in sorted(paths)]

    def write(self, content: bytes) -> None:
        """Write the file completely or not at all.

        Raises:
            ArtifactError: if it cannot be written.
        """
        if not self.is_url:
            make_directory(Path(self.place).parent)
            write(Path(self.place), content, is_durable=True)
            return
        part = f".{secrets.token_hex(4)}.part"

        def put(fs: Any, path: str) -> None:
            fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            fs.pipe_file(path + part, content)
            fs.mv(path + part, path)

        self._ask("write", put)

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes from changing files of this directory, which is made if need be.

        A URL cannot be locked: what is read there may be out of date when it is written back.

        Raises:
            ArtifactError: if it cannot be made, or another process keeps it locked.
        """
        if self.is_url:
            return nullcontext()
        make_directory(Path(self.place))
        return locked(Path(self.place))

    def remove(self) -> None:
        """Remove the file; it is no error if another session has removed it already."""
        try:
            self._ask("remove", lambda fs, path: fs.rm_file(path))
        except ArtifactError:
            if self.is_file():
                raise

    def _system(self) -> tuple[Any, str]:
        """Return the file system, and the path in it.

        fsspec would read `::` and `:` in a local path as parts of a URL.
        """
        import fsspec  # takes longer than all else that reading a run imports

        if not self.is_url:
            return fsspec.filesystem("file"), os.path.abspath(self.place)
        options: dict[str, Any] = {"use_listings_cache": False}
        if self.place.startswith(("http://", "https://")):
            from aiohttp import ClientTimeout  # an extra

            options["client_kwargs"] = {"timeout": ClientTimeout(total=ANSWER_S)}
        system: tuple[Any, str] = fsspec.core.url_to_fs(self.place, **options)
        return system

    def _ask(self, action: str, question: Callable[[Any, str], T]) -> T:
        """Call the file system; turn whatever it raises into one line that names the place."""
        try:
            return question(*self._system())
        except ArtifactError:
            raise
        except FileNotFoundError:
            raise ArtifactError(f"schedprof: there is no {str(self)!r}") from None
        except NotImplementedError:
            raise ArtifactError(
                f"schedprof: cannot {action} {str(self)!r}: this kind of URL does not allow it"
            ) from None
        except (ImportError, ValueError) as error:  # an unknown protocol, or its package is missing
            raise ArtifactError(
                f"schedprof: cannot {action} {str(self)!r}: {error}; known "
                "are paths and URLs whose package for fsspec is installed (s3fs, gcsfs, adlfs, ...)"
            ) from error
        except Exception as error:  # each protocol raises its own errors
            if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
                reason = f"no answer within {ANSWER_S:g} s"
            else:
                reason = f"{type(error).__name__}: {error}".rstrip(": ")
            raise ArtifactError(f"schedprof: cannot {action} {str(self)!r}: {reason}") from error


def _content(fs: Any, path: str) -> bytes:
    if getattr(fs, "local_file", False):
        return read_file(Path(path))
    content: bytes = fs.cat_file(path)
    return content


def _matches(path: str, pattern: str) -> bool:
    """Match part by part, so that a star does not match a slash."""
    parts, patterns = path.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))
