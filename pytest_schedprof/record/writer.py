"""Packs blocks in a thread of its own, so that the scheduler waits neither for zlib nor a disk."""

from __future__ import annotations

import os
import queue
import threading
from pathlib import Path
from typing import Any

from pytest_schedprof.formats.workload import MAGIC, as_block

ENDING_S = 10.0

MOST_WAITING = 1000
"""Blocks that wait to be packed. With more the recording ends, for they are in memory."""

MOST_BYTES = 1 << 26
"""Bytes that wait to be fetched by a client."""


class Writer:
    """Takes blocks, and keeps them in some place."""

    def __init__(self) -> None:
        self.problem: OSError | None = None
        self._taken = self._kept = 0
        self._waiting: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="schedprof-record", daemon=True)
        self._thread.start()

    def keep(self, content: bytes) -> None:
        """Keep a packed block."""
        raise NotImplementedError

    def write(self, block: dict[str, Any]) -> None:
        """Take a block; it is kept soon.

        Raises:
            OSError: an earlier one could not be kept.
        """
        self.check()
        if self._waiting.qsize() > MOST_WAITING:
            raise OSError("blocks come faster than they can be written")
        self._taken += 1
        self._waiting.put(block)

    def check(self) -> None:
        """Raise what went wrong in the thread, if anything did."""
        if self.problem is not None:
            raise self.problem

    def is_idle(self) -> bool:
        """Whether all blocks are kept that were taken."""
        return self._kept == self._taken

    def close(self) -> None:
        """Keep what is left."""
        self.abandon()
        self._thread.join(ENDING_S)

    def abandon(self) -> None:
        """Take no more, and wait for nothing: a disk may hang."""
        self._waiting.put(None)

    def finish(self) -> None:
        """Release what the thread holds; it calls this last."""

    def _run(self) -> None:
        try:
            while self.problem is None and (block := self._waiting.get()) is not None:
                self._keep(block)
        finally:
            self.finish()

    def _keep(self, block: dict[str, Any]) -> None:
        try:
            self.keep(as_block(block))
        except OSError as error:
            self.problem = error
        finally:
            self._kept += 1


class FileWriter(Writer):
    """A file that grows by whole blocks; what was written is there if the process is killed."""

    def __init__(self, path: Path) -> None:
        """Create the file.

        Raises:
            OSError: it cannot be written, or is there already.
        """
        self._file = path.open("xb", buffering=0)
        self._file.write(MAGIC)
        super().__init__()

    def keep(self, content: bytes) -> None:
        """Write all of a block; of one that does not fit, nothing stays."""
        begun = self._file.tell()
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(self._file.fileno(), left) :]
        except OSError:
            self._file.truncate(begun)
            raise

    def finish(self) -> None:
        """Close the file."""
        self._file.close()


class Outbox(Writer):
    """Keeps blocks until a client fetches them."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._lock = threading.Lock()
        super().__init__()

    def keep(self, content: bytes) -> None:
        """Keep a block, unless nobody has fetched others for too long."""
        with self._lock:
            if sum(map(len, self._blocks)) > MOST_BYTES:
                raise OSError("the client that records does not fetch what it asked for")
            self._blocks.append(content)

    def take(self) -> bytes:
        """Return the blocks since the last time."""
        with self._lock:
            blocks, self._blocks = self._blocks, []
        return b"".join(blocks)
