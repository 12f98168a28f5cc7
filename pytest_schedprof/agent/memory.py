"""memray in the scheduler's process, writing to a file that no longer has a name."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tempfile
from types import ModuleType
from typing import Any

from .recordings import Recording, begin, under_way

PROOF_BYTES = 4096
"""More than Python's allocator of small objects gives, so that memray sees it in every mode."""


def memray_proof() -> bytearray:
    """Something to hold as long as memray is at work; a file without it saw nothing."""
    return bytearray(PROOF_BYTES)


class MemoryRecording(Recording):
    """One tracker at work, and the file it writes."""

    kind = "memray"

    def __init__(self, client: str, memray: ModuleType, flags: dict[str, bool]) -> None:
        super().__init__(client)
        with tempfile.TemporaryDirectory(prefix="schedprof-") as directory:
            path = os.path.join(directory, "profile")
            # To compress it at the end memray would need its name again.
            destination = memray.FileDestination(path, compress_on_exit=False)
            # What stood at the peak and at the end, by stack, not each allocation: a four
            # hundredth of the bytes where Python's own allocators are traced.
            file_format = memray.FileFormat.AGGREGATED_ALLOCATIONS
            self.tracker = memray.Tracker(destination=destination, file_format=file_format, **flags)
            self.descriptor = os.open(path, os.O_RDONLY)
        # From here on the file has no name: it ends with the process, however that ends.

    async def end(self, timeout: float) -> dict[str, Any]:
        """Track no longer. Garbage that only waits to be collected is no leak."""
        gc.collect()
        self.tracker.__exit__(None, None, None)
        del self.proof
        return {}

    def track(self) -> None:
        """From here on every allocation counts, the proof's first."""
        self.tracker.__enter__()
        self.proof = memray_proof()

    def size(self) -> int:
        """Of the file."""
        return os.fstat(self.descriptor).st_size

    def piece(self, offset: int, length: int) -> bytes:
        """A part of the file."""
        return os.pread(self.descriptor, length, offset)

    def remove(self) -> None:
        """Close the file, and with that delete it."""
        super().remove()
        os.close(self.descriptor)


async def start(flags: dict[str, bool], client: str, dask_scheduler: Any = None) -> dict[str, Any]:
    """Start a recording; the answer holds a `token`, or a `problem`."""
    try:
        memray = importlib.import_module("memray")
    except ImportError:
        return {"problem": "not-installed", "executable": sys.executable}
    if "memray" in under_way(dask_scheduler) or sys.getprofile() is not None:
        return {"problem": "busy"}
    recording = MemoryRecording(client, memray, flags)
    try:
        recording.track()
    except RuntimeError as error:
        recording.remove()
        if "one Tracker" in str(error):  # somebody else's
            return {"problem": "busy"}
        raise
    return begin(dask_scheduler, recording)
