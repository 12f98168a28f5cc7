"""Recordings under way: kept by token, ended at the latest with their client or scheduler."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import uuid
from typing import Any

RECORDINGS = "_schedprof_recordings"
"""Attribute of the scheduler that holds the recordings under way, by token."""

CLIENT_CHECK_S = 2.0


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


def under_way(scheduler: Any) -> list[str]:
    """Kinds of the recordings that are at work."""
    return [recording.kind for recording in getattr(scheduler, RECORDINGS, {}).values()]


def keep(scheduler: Any, recording: Recording) -> None:
    """From here on the recording is known by its token."""
    scheduler.__dict__.setdefault(RECORDINGS, {})[recording.token] = recording


def begin(scheduler: Any, recording: Recording) -> dict[str, Any]:
    """The answer for a recording that is proven to be at work."""
    keep(scheduler, recording)
    recording.watch = asyncio.ensure_future(_end_without_client(scheduler, recording))
    return {"token": recording.token}


async def forget(scheduler: Any, token: str) -> list[str]:
    """Leave nothing of the recording behind; what was wrong with its helpers."""
    recordings = getattr(scheduler, RECORDINGS, {})
    recording = recordings.pop(token, None)
    if not recordings and hasattr(scheduler, RECORDINGS):
        delattr(scheduler, RECORDINGS)
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


async def _end_without_client(scheduler: Any, recording: Recording) -> None:
    """A client that vanished will never say stop, nor discard: do it for it.

    Nor can one say it to a scheduler that was closed, perhaps with its event loop, in a process
    that lives on.
    """
    try:
        while recording.is_ending or _is_wanted(scheduler, recording):
            await asyncio.sleep(CLIENT_CHECK_S)
    except asyncio.CancelledError:
        # Somebody else ends it; else the loop is being closed.
        if recording.watch is not asyncio.current_task():
            raise
    recording.watch = None
    if not recording.was_ended:
        await recording.end(5.0)
    await forget(scheduler, recording.token)


def _is_wanted(scheduler: Any, recording: Recording) -> bool:
    return recording.client in scheduler.clients and scheduler.status.name == "running"
