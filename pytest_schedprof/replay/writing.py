"""Packs blocks in a thread, so that the scheduler waits neither for zlib nor for a disk."""

from __future__ import annotations

import math
import os
import queue
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_schedprof.formats.workload import MAGIC, as_block
from pytest_schedprof.model.options import read_seconds, read_size


@dataclass(frozen=True, slots=True)
class Limit:
    """When a file is followed by another one."""

    nbytes: float = math.inf
    seconds: float = math.inf


NO_LIMIT = Limit()


def read_limit(text: str) -> Limit:
    """Read a size such as 100MB, or a time such as 1h.

    Raises:
        ValueError: it is neither.
    """
    is_size = text.strip().upper().endswith("B")
    try:
        value = float(read_size(text) if is_size else read_seconds(text))
    except ValueError:
        value = 0.0
    if not value > 0:
        raise ValueError(f"{text!r} is no size such as 100MB and no time such as 1h")
    return Limit(nbytes=value) if is_size else Limit(seconds=value)


class RecordingFiles:
    """A file that grows by whole blocks, which stay if the process is killed.

    Files that follow one another have numbers in their names.
    """

    def __init__(self, path: Path, *, is_numbered: bool) -> None:
        """Create the file.

        Raises:
            OSError: it cannot be written, or is there already.
        """
        self._path = path
        self._number = last_number(path) + 1 if is_numbered else 0
        self._open()

    @property
    def name(self) -> Path:
        """The name of the current file."""
        return numbered(self._path, self._number) if self._number else self._path

    def _open(self) -> None:
        self._file = self.name.open("xb", buffering=0)
        try:
            self.write(MAGIC)
        except OSError:
            self.close()
            self.name.unlink()  # readers of the recording's other files would refuse an empty one
            raise

    def begin_next(self) -> None:
        """Close the file, and open the next one."""
        self._file.close()
        self._number += 1
        self._open()

    def write(self, content: bytes) -> None:
        """Write all of it, or nothing if it does not fit."""
        begun = self._file.tell()
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(self._file.fileno(), left) :]
        except OSError:
            self._file.truncate(begun)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def numbered(path: Path, number: int | str) -> Path:
    """Return the name of a file of a recording that has several, or the pattern for `*`."""
    text = f"{number:04}" if isinstance(number, int) else number
    return path.with_name(f"{path.stem}-{text}{path.suffix}")


def last_number(path: Path) -> int:
    """Return the highest number of files of that name, so that none is overwritten."""
    stems = (file.stem.rpartition("-") for file in path.parent.glob(f"*{path.suffix}"))
    ends = (end for name, _, end in stems if name == path.stem and end.isdigit())
    return max(map(int, ends), default=0)


ENDING_S = 10.0

MOST_WAITING = 1000
"""Blocks that wait to be packed. With more the recording ends, for they are in memory."""

MOST_BYTES = 1 << 26
"""Bytes that wait to be fetched by a client."""


NEXT_FILE: dict[str, Any] = {}
"""Stands in the queue where the next file begins."""


class Writer:
    """Takes blocks, and keeps them in some place."""

    def __init__(self, limit: Limit = NO_LIMIT) -> None:
        self._limit = limit
        self._begun, self._size, self._has_turned = time.monotonic(), 0, False
        """When the current file was begun, its size, and whether another one is under way."""
        self.problem: OSError | None = None
        self._taken = self._kept = 0
        self._waiting: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="schedprof-record", daemon=True)
        self._thread.start()

    def keep(self, content: bytes) -> None:
        """Keep a packed block."""
        raise NotImplementedError

    def write(self, block: dict[str, Any]) -> None:
        """Take a block, to keep it soon.

        Raises:
            OSError: an earlier one could not be kept.
        """
        self.check()
        if self._waiting.qsize() > MOST_WAITING:
            raise OSError("blocks come faster than they can be written")
        self._taken += 1
        self._waiting.put(block)

    def check(self) -> None:
        """Raise the error of the thread, if there was one."""
        if self.problem is not None:
            raise self.problem

    def is_full(self) -> bool:
        """Whether the file has its size or its age, and the next one is not under way."""
        age = time.monotonic() - self._begun
        is_full = self._size >= self._limit.nbytes or age >= self._limit.seconds
        return is_full and not self._has_turned

    def turn(self) -> None:
        """Put later blocks into the next file."""
        self._has_turned = True
        self._taken += 1
        self._waiting.put(NEXT_FILE)

    def begin_next(self) -> None:
        """Begin the next file; the thread calls it."""
        raise NotImplementedError

    def is_idle(self) -> bool:
        """Whether all blocks are kept."""
        return self._kept == self._taken

    def close(self) -> None:
        """Keep all blocks, and end."""
        self.abandon()
        self._thread.join(ENDING_S)

    def abandon(self) -> None:
        """End without waiting: a disk may hang."""
        self._waiting.put(None)

    def finish(self) -> None:
        """Release files; the thread calls it last."""

    def _run(self) -> None:
        try:
            while self.problem is None and (block := self._waiting.get()) is not None:
                self._keep(block)
        finally:
            self.finish()

    def _keep(self, block: dict[str, Any]) -> None:
        try:
            if block is NEXT_FILE:
                self.begin_next()
                self._begun, self._size, self._has_turned = time.monotonic(), 0, False
            else:
                content = as_block(block)
                self.keep(content)
                self._size += len(content)
        except OSError as error:
            self.problem = error
        finally:
            self._kept += 1


class FileWriter(Writer):
    """Keeps blocks in a file, or in several if there is a limit."""

    def __init__(self, path: Path, limit: Limit = NO_LIMIT) -> None:
        """Create the file.

        Raises:
            OSError: it cannot be written, or is there already.
        """
        self._files = RecordingFiles(path, is_numbered=limit != NO_LIMIT)
        super().__init__(limit)

    def keep(self, content: bytes) -> None:
        self._files.write(content)

    def begin_next(self) -> None:
        self._files.begin_next()

    def finish(self) -> None:
        self._files.close()


class Outbox(Writer):
    """Keeps blocks in memory until a client fetches them."""

    def __init__(self, limit: Limit = NO_LIMIT) -> None:
        self._blocks: list[list[bytes]] = [[]]
        """Blocks since the last fetch, by file."""
        self._nbytes = 0
        self._lock = threading.Lock()
        super().__init__(limit)

    def keep(self, content: bytes) -> None:
        with self._lock:
            if self._nbytes > MOST_BYTES:
                raise OSError("the client that records does not fetch what it asked for")
            self._blocks[-1].append(content)
            self._nbytes += len(content)

    def begin_next(self) -> None:
        with self._lock:
            self._blocks.append([])

    def take(self) -> list[bytes]:
        """Return the blocks since the last call, by file; the first belong to its last file."""
        with self._lock:
            blocks, self._blocks, self._nbytes = self._blocks, [[]], 0
        return [b"".join(of_file) for of_file in blocks]
