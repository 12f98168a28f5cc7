"""Recordings under way: kept by token, ended at the latest with their client or holder.

What holds them is the object that stands for the process: the scheduler, a worker, or
`OwnProcess` in that of the client. dask gives the first two to a parameter `dask_scheduler`.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import tempfile
import uuid
from typing import Any

import cloudpickle

RECORDINGS = "_schedprof_recordings"
"""Attribute of the holder with the recordings under way, by token."""

ENDING_S = 5.0

CLIENT_CHECK_S = 2.0
WORKERS_CLIENT_CHECK_S = 10.0
"""A worker must ask the scheduler, which should hear of us as seldom as can be."""


class OwnProcess:
    """Holds the recordings of the process that asks for them: nobody can vanish from it."""


class Recording:
    """A profiler at work in this process, and what it brings back."""

    kind = ""
    """Two recordings of one kind cannot be at work at once."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.token = uuid.uuid4().hex
        self.content = b""
        self.watch: asyncio.Task[None] | None = None
        self.is_ending = self.was_ended = False

    async def end(self, timeout: float) -> dict[str, Any]:
        """Observe no longer; what there is to say of the content, which is there from now on."""
        raise NotImplementedError

    def size(self) -> int:
        """Of the content, in bytes."""
        return len(self.content)

    def piece(self, offset: int, length: int) -> bytes:
        """A part of the content."""
        return self.content[offset : offset + length]

    def unwatch(self) -> None:
        """From here on somebody else ends it."""
        watch, self.watch = self.watch, None
        if watch is not None:
            watch.cancel()

    def remove(self) -> None:
        """Leave nothing behind."""
        self.unwatch()

    async def dismiss(self) -> list[str]:
        """Part with helpers once nothing is left that they watch; what was wrong with them."""
        return []


class FileRecording(Recording):
    """One whose profiler writes to a file of its own."""

    def __init__(self, client: str) -> None:
        super().__init__(client)
        self.directory = tempfile.mkdtemp(prefix="schedprof-")
        self.path = os.path.join(self.directory, "profile")

    def size(self) -> int:
        """Of the file, 0 if there is none."""
        return os.path.getsize(self.path) if os.path.exists(self.path) else 0

    def piece(self, offset: int, length: int) -> bytes:
        """A part of the file."""
        with open(self.path, "rb") as file:
            file.seek(offset)
            return file.read(length)

    def remove(self) -> None:
        """Delete the file and its directory."""
        super().remove()
        shutil.rmtree(self.directory, ignore_errors=True)


def under_way(holder: Any) -> list[str]:
    """Kinds of the recordings that are at work."""
    return [recording.kind for recording in getattr(holder, RECORDINGS, {}).values()]


def keep(holder: Any, recording: Recording) -> None:
    """From here on the recording is known by its token."""
    holder.__dict__.setdefault(RECORDINGS, {})[recording.token] = recording


def begin(holder: Any, recording: Recording) -> dict[str, Any]:
    """The answer for a recording that is proven to be at work."""
    keep(holder, recording)
    if not isinstance(holder, OwnProcess):
        recording.watch = asyncio.ensure_future(_end_without_client(holder, recording))
    return {"token": recording.token}


async def forget(holder: Any, token: str) -> list[str]:
    """Leave nothing of the recording behind; what was wrong with its helpers."""
    recordings = getattr(holder, RECORDINGS, {})
    recording = recordings.pop(token, None)
    if not recordings and hasattr(holder, RECORDINGS):
        delattr(holder, RECORDINGS)
    if recording is None:
        return []
    recording.remove()
    told: list[str] = await recording.dismiss()
    return told


async def stop(token: str, timeout: float, dask_scheduler: Any = None) -> dict[str, Any]:
    """End a recording; what there is to say of it, and the `size` of its file."""
    recording = getattr(dask_scheduler, RECORDINGS, {}).get(token)
    if recording is None:
        return {"problem": "unknown"}
    recording.is_ending = True
    try:
        answer = await recording.end(timeout)
    finally:  # the watch goes on: a client that is interrupted now may never fetch it
        recording.is_ending, recording.was_ended = False, True
    return {**answer, "size": recording.size()}


def fetch(token: str, offset: int, length: int, dask_scheduler: Any = None) -> bytes:
    """A piece of what a recording brought back."""
    recording: Recording = getattr(dask_scheduler, RECORDINGS)[token]
    return recording.piece(offset, length)


async def discard(token: str, dask_scheduler: Any = None) -> list[str]:
    """Forget a recording that came back, or that nobody wants."""
    return await forget(dask_scheduler, token)


async def end_all(client: str, dask_scheduler: Any = None) -> None:
    """End and forget every recording of a client that was interrupted and may know no token."""
    for recording in list(getattr(dask_scheduler, RECORDINGS, {}).values()):
        if recording.client != client:
            continue
        while recording.is_ending:  # as was asked for, though nobody waits for the answer
            await asyncio.sleep(0.01)
        if not recording.was_ended:
            await recording.end(ENDING_S)
        await forget(dask_scheduler, recording.token)


async def _end_without_client(holder: Any, recording: Recording) -> None:
    """A client that vanished will never say stop, nor discard: do it for it.

    Nor can one say it to a scheduler that was closed, perhaps with its event loop, in a process
    that lives on.
    """
    try:
        is_worker = not hasattr(holder, "clients")
        while recording.is_ending or await _is_wanted(holder, recording.client):
            await asyncio.sleep(WORKERS_CLIENT_CHECK_S if is_worker else CLIENT_CHECK_S)
    except asyncio.CancelledError:
        # Somebody else ends it; else the loop is being closed.
        if recording.watch is not asyncio.current_task():
            raise
    recording.watch = None
    if not recording.was_ended:
        await recording.end(ENDING_S)
    await forget(holder, recording.token)


async def _is_wanted(holder: Any, client: str) -> bool:
    if holder.status.name not in ("running", "paused"):
        return False
    return client in holder.clients if hasattr(holder, "clients") else await _asked(holder, client)


async def _asked(worker: Any, client: str) -> bool:
    """Whether the worker's scheduler knows the client; of one that is gone nobody can want it."""

    def knows(name: str, dask_scheduler: Any = None) -> bool:  # what is nested travels by value
        return name in dask_scheduler.clients

    try:
        answer = await worker.scheduler.run_function(
            function=cloudpickle.dumps(knows),
            args=pickle.dumps((client,)),
            kwargs=pickle.dumps({}),
            wait=True,
        )
    except OSError:
        return False
    return answer["status"] == "OK" and bool(answer["result"])
