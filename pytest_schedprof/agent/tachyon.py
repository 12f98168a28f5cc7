"""Runs tachyon, the sampler of Python 3.15, in a child of the process that it samples."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

from .recordings import ChildRecording, begin, discard, keep, under_way

FIRST_PYTHON = (3, 15)

READY = b"schedprof: sampling"
"""Line of the program's log after it saw this process in a known function."""

BEACON_S = 0.005


def beacon(seconds: float) -> None:
    """Keep this thread busy in a known function, where every mode has something to see."""
    try:
        raise LookupError
    except LookupError:  # mode `exception` samples threads that handle one
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass


class TachyonRecording(ChildRecording):
    """A sampler at work, with its log and its file."""

    kind = "tachyon"
    program = "tachyon"

    def launch(self, source: str, settings: str) -> None:
        """Start the program that samples, with the interpreter of this process."""
        me = [str(os.getpid()), str(self.descriptor), beacon.__code__.co_filename]
        self.spawn([sys.executable, "-I", "-S", "-c", source, *me, settings], {})

    async def prove(self, deadline: float) -> bool:
        """Keep this thread busy until the sampler has seen it; return False if it does not."""
        while self.profiler.poll() is None and time.monotonic() < deadline:
            beacon(BEACON_S)
            self.listen()
            if READY in self.log:
                self.proven_at = time.monotonic()
                return True
            await asyncio.sleep(0)
        self.listen()
        return False


async def start(
    source: str, settings: str, timeout: float, client: str, dask_scheduler: Any = None
) -> dict[str, Any]:
    """Start a recording and wait until it is proven that it samples this process.

    Args:
        source: the program that samples.
        settings: what it samples and how often, as JSON.
        timeout: seconds that it may take.
        client: name of the client that asks.
        dask_scheduler: what represents this process.

    Returns a `token`, or a `problem` and what is known of it.
    """
    if "tachyon" in under_way(dask_scheduler):
        return {"problem": "busy"}
    if sys.version_info < FIRST_PYTHON:
        return {"problem": "old", "python": ".".join(map(str, sys.version_info[:3]))}
    deadline = time.monotonic() + timeout
    recording = TachyonRecording(client)
    try:
        recording.launch(source, settings)
    except OSError as error:
        recording.remove()
        return {"problem": "failed", "early": True, "status": error.errno, "log": str(error)}
    keep(dask_scheduler, recording)
    if await recording.prove(deadline):
        return begin(dask_scheduler, recording)
    answer = await recording.end(1.0)
    await discard(recording.token, dask_scheduler)
    return {"problem": "failed", **answer}
