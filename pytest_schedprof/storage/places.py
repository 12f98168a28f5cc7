"""Files here and elsewhere: paths, and whatever URL fsspec can open."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.storage.run_directory import make_directory, write

T = TypeVar("T")

ANSWER_S = 30.0


@dataclass(frozen=True)
class Folder:
    """A file or directory, wherever it is."""

    place: str
    """A path, or a URL of any kind that fsspec knows: s3, gs, abfs, http, memory, ..."""

    @property
    def is_url(self) -> bool:
        """Whether it is reached through fsspec's other file systems."""
        return "://" in self.place

    def __truediv__(self, name: str) -> Folder:
        return Folder(f"{self.place.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.place

    @property
    def parent(self) -> Folder:
        """The directory that it is in."""
        return Folder(self.place.rstrip("/").rpartition("/")[0] or ".")

    @property
    def name(self) -> str:
        """The last part."""
        return self.place.rstrip("/").rpartition("/")[2]

    def read(self) -> bytes:
        """The file's content.

        Raises:
            ArtifactError: if there is none, or its place cannot be reached.
        """
        content: bytes = self._ask("read", lambda fs, path: fs.cat_file(path))
        return content

    def exists(self) -> bool:
        """Whether there is anything of that name."""
        return bool(self._ask("read", lambda fs, path: fs.exists(path)))

    def is_file(self) -> bool:
        """Whether there is a file of that name."""
        return bool(self._ask("read", lambda fs, path: fs.isfile(path)))

    def is_directory(self) -> bool:
        """Whether there is a directory of that name."""
        return bool(self._ask("read", lambda fs, path: fs.isdir(path)))

    def files(self, pattern: str) -> list[Folder]:
        """Those below it whose paths from here match, in order."""
        depth = pattern.count("/")

        def find(fs: Any, path: str) -> list[str]:
            # No glob of the file system's own: the path itself may hold a bracket.
            start = len(path.rstrip("/")) + 1
            found = fs.find(path, maxdepth=depth + 1)
            return [f for f in found if _matches(f[start:], pattern)]

        return self._folders(self._ask("list", find))

    def below(self, name: str) -> list[Folder]:
        """Every file of that name, at any depth, in order; or itself, if it is one."""
        found = self._folders(self._ask("list", lambda fs, path: fs.find(path)))
        return [each for each in found if each.name == name]

    def _folders(self, paths: Iterable[str]) -> list[Folder]:
        """A file system leaves the protocol away, or does not."""
        root = self.place.partition("://")[0] + "://" if self.is_url else ""
        return [Folder(each if "://" in each else root + each) for each in sorted(paths)]

    def write(self, content: bytes) -> None:
        """Write the file, whole or not at all.

        Raises:
            ArtifactError: if it cannot be written.
        """
        if not self.is_url:
            make_directory(Path(self.place).parent)
            write(Path(self.place), content)
            return
        part = f".{secrets.token_hex(4)}.part"

        def put(fs: Any, path: str) -> None:
            fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            fs.pipe_file(path + part, content)
            fs.mv(path + part, path)

        self._ask("write", put)

    def remove(self) -> None:
        """Remove the file; one that another session removed is gone all the same."""
        try:
            self._ask("remove", lambda fs, path: fs.rm_file(path))
        except ArtifactError:
            if self.is_file():
                raise

    def _options(self) -> dict[str, Any]:
        """For http a deadline: its client would wait for five minutes."""
        options: dict[str, Any] = {"use_listings_cache": False}
        if self.place.startswith(("http://", "https://")):
            from aiohttp import ClientTimeout

            options["client_kwargs"] = {"timeout": ClientTimeout(total=ANSWER_S)}
        return options

    def _ask(self, what: str, question: Callable[[Any, str], T]) -> T:
        """Call the file system; whatever it raises becomes one line that names the place."""
        try:
            import fsspec

            fs, path = fsspec.core.url_to_fs(self.place, **self._options())
            return question(fs, path)
        except FileNotFoundError:
            raise ArtifactError(f"schedprof: there is no {self.place!r}") from None
        except NotImplementedError:
            raise ArtifactError(
                f"schedprof: cannot {what} {self.place!r}: this kind of URL does not allow it"
            ) from None
        except (ImportError, ValueError) as error:  # an unknown protocol, a package it needs
            raise ArtifactError(
                f"schedprof: cannot {what} {self.place!r}: {error}; known are paths and URLs whose "
                "package for fsspec is installed (s3fs, gcsfs, adlfs, aiohttp, ...)"
            ) from error
        except (Exception, asyncio.TimeoutError) as error:  # each protocol raises its own
            if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
                reason = f"no answer within {ANSWER_S:g} s"
            else:
                reason = f"{type(error).__name__}: {error}".rstrip(": ")
            raise ArtifactError(f"schedprof: cannot {what} {self.place!r}: {reason}") from error


def _matches(path: str, pattern: str) -> bool:
    """A star does not go beyond a slash."""
    parts, patterns = path.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))
