"""Packs blocks in a thread, so that the scheduler waits neither for zlib nor for a disk."""

from __future__ import annotations

import os
import queue
import threading
import time
from pathlib import Path
from typing import Any

from pytest_schedprof.formats.workload import MAGIC, as_block


class RecordingFile:
    """A file that grows by whole blocks, which stay if the process is killed."""

    def __init__(self, path: Path) -> None:
        """Create the file.

        Raises:
            OSError: it cannot be written, or is there already.
        """
        self.path = path
        self._file = path.open("xb", buffering=0)
        try:
            self.write(MAGIC)
        except OSError:
            self.close()
            path.unlink()
            raise

    def write(self, content: bytes) -> None:
        """Write all of it, or nothing if it does not fit."""
        start = self._file.tell()
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(self._file.fileno(), left) :]
        except OSError:
            self._file.truncate(start)
            raise

    def close(self) -> None:
        self._file.close()


ENDING_S = 10.0

MOST_WAITING = 1000
"""Blocks that wait to be packed. With more the recording ends, for they are in memory."""

MOST_BYTES = 1 << 26
"""Bytes that wait to be fetched by a client."""

PATIENCE_S = 600.0
"""Seconds without a fetch after which the client counts as gone; it fetches twice a second."""

NOT_FETCHED = "the client that records does not fetch what it asked for"


class Writer:
    """Takes blocks, and keeps them in some place."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
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
            OSError: an earlier one could not be kept, or another error that this met.
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

    def is_idle(self) -> bool:
        return self._kept == self._taken

    def close(self) -> None:
        """Keep all blocks, and end."""
        self.abandon()
        self._thread.join(ENDING_S)

    def abandon(self) -> None:
        """End without waiting: a disk may hang."""
        self._waiting.put(None)

    def finish(self) -> None:
        """Release the file; the thread calls it last."""

    def _run(self) -> None:
        try:
            while self.problem is None and (block := self._waiting.get()) is not None:
                try:
                    self.keep(as_block(block))
                except Exception as error:  # also of a value that cannot be packed
                    self.problem = error
                finally:
                    self._kept += 1
        finally:
            self.finish()


class FileWriter(Writer):
    """Keeps blocks in a file."""

    def __init__(self, path: Path) -> None:
        """Create the file.

        Raises:
            OSError: it cannot be written, or is there already.
        """
        self._file = RecordingFile(path)
        super().__init__()

    def keep(self, content: bytes) -> None:
        self._file.write(content)

    def finish(self) -> None:
        self._file.close()


class Outbox(Writer):
    """Keeps blocks in memory until a client fetches them."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        """Blocks since the last fetch."""
        self._nbytes = 0
        self._lock = threading.Lock()
        self._fetched = time.monotonic()
        """When a client last fetched blocks."""
        super().__init__()

    def check(self) -> None:
        """Raise the error of the thread, or that the client has gone: then nobody ends this."""
        super().check()
        if time.monotonic() - self._fetched > PATIENCE_S:
            raise OSError(NOT_FETCHED)

    def keep(self, content: bytes) -> None:
        with self._lock:
            if self._nbytes > MOST_BYTES:
                raise OSError(NOT_FETCHED)
            self._blocks.append(content)
            self._nbytes += len(content)

    def take(self) -> bytes:
        """Return the blocks since the last call."""
        self._fetched = time.monotonic()
        with self._lock:
            blocks, self._blocks, self._nbytes = self._blocks, [], 0
        return b"".join(blocks)
