"""Packs blocks in a thread of its own, so that the scheduler waits neither for zlib nor a disk."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

from pytest_schedprof.formats.workload import as_block
from pytest_schedprof.record.files import RecordingFiles
from pytest_schedprof.record.rotation import NO_LIMIT, Filling, Limit

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
        self._filling = Filling(limit)
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

    def is_full(self) -> bool:
        """Whether it is time for the next file, and that is not on its way."""
        return self._filling.is_full()

    def turn(self) -> None:
        """Put what comes from now on into the next file."""
        self._filling.turn()
        self._taken += 1
        self._waiting.put(NEXT_FILE)

    def begin_next(self) -> None:
        """Begin the next file; the thread calls this."""
        raise NotImplementedError

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
            if block is NEXT_FILE:
                self.begin_next()
                self._filling.begin()
            else:
                content = as_block(block)
                self.keep(content)
                self._filling.add(len(content))
        except OSError as error:
            self.problem = error
        finally:
            self._kept += 1


class FileWriter(Writer):
    """Keeps blocks in a file, which others follow if there is a limit."""

    def __init__(self, path: Path, limit: Limit = NO_LIMIT) -> None:
        """Create the file.

        Raises:
            OSError: it cannot be written, or is there already.
        """
        self._files = RecordingFiles(path, is_numbered=limit != NO_LIMIT)
        super().__init__(limit)

    def keep(self, content: bytes) -> None:
        """Write a block."""
        self._files.write(content)

    def begin_next(self) -> None:
        """Begin the next file."""
        self._files.begin_next()

    def finish(self) -> None:
        """Close the file."""
        self._files.close()


class Outbox(Writer):
    """Keeps blocks until a client fetches them."""

    def __init__(self, limit: Limit = NO_LIMIT) -> None:
        self._blocks: list[list[bytes]] = [[]]
        """Those of each file that was begun since the last time."""
        self._nbytes = 0
        self._lock = threading.Lock()
        super().__init__(limit)

    def keep(self, content: bytes) -> None:
        """Keep a block, unless nobody has fetched others for too long."""
        with self._lock:
            if self._nbytes > MOST_BYTES:
                raise OSError("the client that records does not fetch what it asked for")
            self._blocks[-1].append(content)
            self._nbytes += len(content)

    def begin_next(self) -> None:
        """Let the client begin the next file."""
        with self._lock:
            self._blocks.append([])

    def take(self) -> list[bytes]:
        """Return the blocks since the last time: the first ones are of the file of that time."""
        with self._lock:
            blocks, self._blocks, self._nbytes = self._blocks, [[]], 0
        return [b"".join(each) for each in blocks]
