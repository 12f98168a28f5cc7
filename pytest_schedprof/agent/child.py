"""A profiler that samples this process from outside, as its child."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from .recordings import FileRecording, unnamed_file, unnamed_memory

PR_SET_PTRACER = 0x59616D61


def allow_tracing(by_descendants: bool) -> None:
    """Let descendants trace this process where Yama restricts ptrace, or forbid it again."""
    if os.path.exists("/proc/sys/kernel/yama/ptrace_scope"):
        pid = os.getpid() if by_descendants else 0
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PTRACER, pid, 0, 0, 0)


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

    def survivor(self) -> dict[str, int]:
        """Return where the session finds the file, which the profiler writes when it ends."""
        return {**super().survivor(), "writer": self.profiler.pid}

    def spawn(self, command: list[str], more: Mapping[str, str]) -> None:
        """Start the profiler in a session of its own, which a Ctrl-C does not reach.

        Args:
            command: of the profiler.
            more: variables of its environment beside those of this process.
        """
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
        allow_tracing(by_descendants=False)
        log = self.log[-20000:].decode(errors="replace")
        return {"status": self.profiler.returncode, "forced": self.forced, "log": log}

    def remove(self) -> None:
        super().remove()
        os.close(self.log_file)
