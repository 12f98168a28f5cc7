"""Runs memray in the scheduler's process, writing to a file without a name."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tempfile
from types import ModuleType
from typing import Any

from .recordings import FileRecording, begin, path_of, under_way, unnamed_file

PROOF_BYTES = 4096
"""Larger than small objects of Python's allocator, so that memray sees it in every mode."""


def memray_proof() -> bytearray:
    """Return an object that is kept while memray is at work; every valid file has it."""
    return bytearray(PROOF_BYTES)


class MemoryRecording(FileRecording):
    """A tracker at work, and the file that it writes."""

    kind = "memray"

    def __init__(self, client: str) -> None:
        super().__init__(client, unnamed_file())

    def track(self, memray: ModuleType, flags: dict[str, bool]) -> None:
        """Start tracking; the first allocation is the proof."""
        # To compress the file at the end memray would need a name for another one.
        destination = memray.FileDestination(
            path_of(self.descriptor), overwrite=True, compress_on_exit=False
        )
        # Totals by stack at the peak and at the end instead of each allocation: a four hundredth of
        # the size where Python's own allocators are traced, but all of it is written at the end.
        file_format = memray.FileFormat.AGGREGATED_ALLOCATIONS
        self.tracker = memray.Tracker(destination=destination, file_format=file_format, **flags)
        self.tracker.__enter__()
        self.proof = memray_proof()

    async def end(self, timeout: float) -> dict[str, Any]:
        """Stop tracking, after a garbage collection: garbage is not a leak."""
        gc.collect()
        self.tracker.__exit__(None, None, None)
        del self.proof
        return {}


def track_nothing() -> None:
    """Track for a moment, into a file that is deleted."""
    memray = importlib.import_module("memray")
    with tempfile.TemporaryDirectory(prefix="schedprof-") as directory:
        try:
            with memray.Tracker(os.path.join(directory, "profile")):
                pass
        except RuntimeError:  # somebody else's tracker is at work, so the first one was theirs
            return


async def start(flags: dict[str, bool], client: str, dask_scheduler: Any = None) -> dict[str, Any]:
    """Start a recording; return a `token` or a `problem`."""
    try:
        memray = importlib.import_module("memray")
    except ImportError:
        return {"problem": "not-installed", "executable": sys.executable}
    if "memray" in under_way(dask_scheduler) or sys.getprofile() is not None:
        return {"problem": "busy"}
    recording = MemoryRecording(client)
    try:
        recording.track(memray, flags)
    except BaseException as error:
        recording.remove()
        if isinstance(error, RuntimeError) and "one Tracker" in str(error):  # of somebody else
            return {"problem": "busy"}
        raise
    return begin(dask_scheduler, recording)
