"""Recordings under way: kept by token, and ended at the latest with their client or holder.

The holder is the object that represents the process: the scheduler, which dask passes to a
parameter `dask_scheduler`, or `OwnProcess` in the test's own process.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

RECORDINGS = "_schedprof_recordings"
"""Attribute of the holder that maps tokens to recordings under way."""

ENDING_S = 5.0

CLIENT_CHECK_S = 2.0


def as_json(record: dict[str, Any]) -> bytes:
    """Return a record as JSON in UTF-8, which lone surrogates in names of files cannot be in."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


class OwnProcess:
    """Holds the recordings of the test's own process; their client is "", which cannot be lost."""


class Recording:
    """A profiler at work in this process, and the content that it records."""

    kind = ""
    """Only one recording of a kind can be at work at once."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.token = uuid.uuid4().hex
        self.content = b""
        self.watch: asyncio.Task[None] | None = None
        self.is_ending = self.was_ended = False

    async def end(self, timeout: float) -> dict[str, Any]:
        """Stop recording, make the content available, and return facts about it."""
        raise NotImplementedError

    def size(self) -> int:
        return len(self.content)

    def piece(self, offset: int, length: int) -> bytes:
        return self.content[offset : offset + length]

    def unwatch(self) -> None:
        """Cancel the watch for a lost client; from here on somebody else ends the recording."""
        watch, self.watch = self.watch, None
        if watch is not None:
            watch.cancel()

    def remove(self) -> None:
        """Free all resources."""
        self.unwatch()

    async def dismiss(self) -> list[str]:
        """End helper processes after `remove`; return what was wrong with them."""
        return []


class FileRecording(Recording):
    """A recording whose content is in a file without a name.

    Nobody has to delete the file.
    """

    def __init__(self, client: str, descriptor: int) -> None:
        super().__init__(client)
        self.descriptor = descriptor

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def piece(self, offset: int, length: int) -> bytes:
        return os.pread(self.descriptor, length, offset)

    def remove(self) -> None:
        super().remove()
        os.close(self.descriptor)


def unnamed_file() -> int:
    """Return the descriptor of a new file in the directory for temporary files, without a name."""
    with tempfile.TemporaryFile(prefix="schedprof-") as file:
        return os.dup(file.fileno())


def unnamed_memory() -> int:
    """Return the descriptor of a new file without a name that takes no room on a disk."""
    return os.memfd_create("schedprof") if hasattr(os, "memfd_create") else unnamed_file()


def path_of(descriptor: int) -> str:
    """Return a path by which this process, or a child that inherits it, can open a descriptor."""
    directory = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    return f"{directory}/{descriptor}"


def under_way(holder: Any) -> list[str]:
    """Return the kinds of the recordings that are at work."""
    return [recording.kind for recording in getattr(holder, RECORDINGS, {}).values()]


def keep(holder: Any, recording: Recording) -> None:
    holder.__dict__.setdefault(RECORDINGS, {})[recording.token] = recording


def begin(holder: Any, recording: Recording) -> dict[str, Any]:
    """Store a recording that is proven to be at work and watch its client.

    Returns its `token`.
    """
    keep(holder, recording)
    if recording.client:  # else it is the holder's own process, and would die with it
        recording.watch = asyncio.ensure_future(_end_without_client(holder, recording))
    return {"token": recording.token}


async def discard(token: str, dask_scheduler: Any = None) -> list[str]:
    """Remove a recording and free its resources; return what was wrong with its helpers."""
    recording = remove(token, dask_scheduler)
    return [] if recording is None else await recording.dismiss()


def remove(token: str, holder: Any) -> Recording | None:
    """Free the resources of a recording, except for its helpers, and return it."""
    recordings = getattr(holder, RECORDINGS, {})
    recording: Recording | None = recordings.pop(token, None)
    if not recordings and hasattr(holder, RECORDINGS):
        delattr(holder, RECORDINGS)
    if recording is not None:
        recording.remove()
    return recording


async def stop(token: str, timeout: float, dask_scheduler: Any = None) -> dict[str, Any]:
    """End a recording; return facts about it, the `size` of its content, and what room is left.

    The room is that of the directory for temporary files, where profilers write.
    """
    recording = getattr(dask_scheduler, RECORDINGS, {}).get(token)
    if recording is None:
        return {"problem": "unknown"}
    recording.is_ending = True
    try:
        answer = await recording.end(timeout)
        recording.was_ended = True
    except asyncio.CancelledError:  # while it waited for its profiler: it can be ended once more
        raise
    except BaseException as error:
        recording.was_ended = True
        if isinstance(error, Exception):  # it has nothing to fetch
            await discard(token, dask_scheduler)
        raise
    finally:  # still watched: a client that is interrupted now may never fetch it
        recording.is_ending = False
    try:
        place = tempfile.gettempdir()
        room = {"place": place, "free": shutil.disk_usage(place).free}
    except OSError:  # there is none, or the test has removed it
        room = {"place": "", "free": sys.maxsize}
    return {**answer, "size": recording.size(), "room": room}


def fetch(token: str, offset: int, length: int, dask_scheduler: Any = None) -> bytes:
    """Return a piece of a recording's content."""
    recording: Recording = getattr(dask_scheduler, RECORDINGS)[token]
    return recording.piece(offset, length)


async def end_all(client: str, dask_scheduler: Any = None) -> None:
    """End and remove all recordings of a client that was interrupted and may not know tokens."""
    async with AsyncExitStack() as ends:  # which runs all of them, also if one fails
        for recording in list(getattr(dask_scheduler, RECORDINGS, {}).values()):
            if recording.client == client:
                ends.push_async_callback(_end, dask_scheduler, recording)


async def _end(holder: Any, recording: Recording) -> None:
    """End a recording unless somebody has, and remove it also if that fails."""
    while recording.is_ending:  # a stop is in progress, though nobody waits for its answer
        await asyncio.sleep(0.01)
    try:
        if not recording.was_ended:
            await recording.end(ENDING_S)
    finally:
        await discard(recording.token, holder)


async def _end_without_client(holder: Any, recording: Recording) -> None:
    """End and remove a recording when its client is gone or its scheduler was closed.

    A closed scheduler, perhaps with a closed event loop, can be in a process that lives on.
    """
    try:
        while recording.is_ending or _has(holder, recording.client):
            await asyncio.sleep(CLIENT_CHECK_S)
    except asyncio.CancelledError:
        # Cancelled by `unwatch`: somebody else ends it. Else the loop is being closed.
        if recording.watch is not asyncio.current_task():
            raise
    recording.watch = None
    await _end(holder, recording)


def _has(scheduler: Any, client: str) -> bool:
    """Whether the scheduler is at work and knows the client."""
    return scheduler.status.name == "running" and client in scheduler.clients


PR_SET_PTRACER = 0x59616D61


def allow_tracing(by_descendants: bool) -> None:
    """Let descendants trace this process where Yama restricts ptrace, or forbid it again."""
    if os.path.exists("/proc/sys/kernel/yama/ptrace_scope"):
        pid = os.getpid() if by_descendants else 0
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PTRACER, pid, 0, 0, 0)


LOGGED = 10_000
"""Bytes of the begin, and of the end, of a profiler's log that are told."""

TRACING: set[str] = set()
"""Tokens of the recordings whose profilers trace this process: there is one permission for all."""


class ChildRecording(FileRecording):
    """A profiler at work, with its log and its file; neither file has a name."""

    program = ""
    """Name of the profiler in messages."""

    def __init__(self, client: str) -> None:
        super().__init__(client, unnamed_file())
        self.log = b""
        # No pipe, to which a profiler whose scheduler died cannot write, and no file on a disk that
        # may be full: py-spy panics then.
        self.log_file = unnamed_memory()
        self.proven_at = 0.0
        self.forced = ""

    def spawn(self, command: list[str], more: Mapping[str, str]) -> None:
        """Start the profiler in a session of its own, which a Ctrl-C does not reach.

        Args:
            more: variables of its environment beside those of this process.
        """
        TRACING.add(self.token)
        allow_tracing(by_descendants=True)
        self.profiler = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self.log_file,
            stderr=subprocess.STDOUT,
            pass_fds=[self.descriptor],
            start_new_session=True,
            env={**os.environ, **more},
        )

    def listen(self) -> None:
        """Read what the profiler has written so far."""
        while more := os.pread(self.log_file, 65536, len(self.log)):
            self.log += more

    async def end(self, timeout: float) -> dict[str, Any]:
        seconds = time.monotonic() - self.proven_at
        self.listen()
        is_early = self.has_ended()
        ladder = ((signal.SIGINT, timeout), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0))
        for number, patience in ladder:
            if self.profiler.poll() is not None:
                break
            self.profiler.send_signal(number)
            if await self.ended(self.profiler, patience):
                break
            self.forced = f"{self.program} did not end within {patience:g} s of {number.name}"
        answer = await self.outcome()
        # A killed one can take a moment to end, until which it looks like one at work.
        is_early = is_early or answer["status"] == -signal.SIGKILL
        return {"early": is_early, "seconds": seconds, **answer}

    def has_ended(self) -> bool:
        """Whether the profiler samples no longer."""
        return self.profiler.poll() is not None

    async def ended(self, process: subprocess.Popen[bytes], patience: float) -> bool:
        """Wait for a process to end without blocking the loop; False after `patience` seconds."""
        deadline = time.monotonic() + patience
        while process.poll() is None:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.002)
        return True

    async def outcome(self) -> dict[str, Any]:
        """Return the profiler's exit status and log after it ended."""
        self.listen()
        self.forbid_tracing()
        log = self.log
        if len(log) > 2 * LOGGED:  # it begins with what was found, and ends with how it went
            log = log[:LOGGED] + b"\n...\n" + log[-LOGGED:]
        log_text = log.decode(errors="replace")
        return {"status": self.profiler.returncode, "forced": self.forced, "log": log_text}

    def forbid_tracing(self) -> None:
        """Take the permission back, unless another profiler is at work."""
        TRACING.discard(self.token)
        if not TRACING:
            allow_tracing(by_descendants=False)

    def remove(self) -> None:
        super().remove()
        os.close(self.log_file)
        self.forbid_tracing()
