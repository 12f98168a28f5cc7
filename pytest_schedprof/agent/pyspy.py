"""py-spy as a descendant of the scheduler that it samples."""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from typing import Any

from .recordings import FileRecording, begin, forget, keep, under_way

KNOWS_THREADS = sys.hexversion >= 0x030B0000
"""Whether py-spy can tell by its first sample which thread is busy: since Python 3.11."""

TICKS = 2
"""Samples to wait for: the first may have been taken just before the beacon was lit."""

UNSURE_TICKS = 12
"""As many where one is not sure to be kept (`gil`, old Python), or seen (`nonblocking`),
or where other threads compete for the interpreter."""

COUNTS_HOLDS = hasattr(resource, "RUSAGE_THREAD")
"""Whether a thread can tell how often it was stopped: on Linux."""

PR_SET_PTRACER = 0x59616D61
READY = b"Sampling process"
STOPPED = b"Stopped sampling"
"""py-spy's word that it samples no longer, though it may still be writing its file."""

FORCED = 3
"""The watchdog's exit status after it had to free the scheduler."""

ENDED, LEAVE = b"e", b"q"
"""What the watchdog is told when py-spy is gone, and when its file is."""

GUARD_PATIENCE_S = 5.0

BEACON_S = 0.002


def find_pyspy() -> str | None:
    """The py-spy that belongs to this interpreter, or else the first on the path."""
    places = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    return shutil.which("py-spy", path=os.pathsep.join(places)) or shutil.which("py-spy")


def host() -> list[str]:
    """What a program must have been built for to run here."""
    libc = "glibc" if platform.libc_ver()[0] == "glibc" else "no glibc"
    return [sys.platform, platform.machine(), libc]


def allow_tracing(by_descendants: bool) -> None:
    """Where Yama restricts ptrace, let this process's descendants trace it, or no longer."""
    if os.path.exists("/proc/sys/kernel/yama/ptrace_scope"):
        pid = os.getpid() if by_descendants else 0
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PTRACER, pid, 0, 0, 0)


def is_alone() -> bool:
    """Whether no other thread can take the interpreter's lock, which looks like a hold."""
    quiet = {threading.main_thread().name, "schedprof-parent"}
    return all(thread.name in quiet for thread in threading.enumerate())


def switches() -> int:
    """How often this thread gave up its CPU without being preempted."""
    who = resource.RUSAGE_THREAD if COUNTS_HOLDS else resource.RUSAGE_SELF
    return resource.getrusage(who).ru_nvcsw


def beacon(seconds: float) -> int:
    """Keep the scheduler's thread busy so that a sample has something known to see.

    Returns how often the thread was stopped meanwhile: it never waits by itself, so that is
    how often a profiler held it (or another thread took the interpreter's lock).
    """
    end = time.perf_counter() + seconds
    before = switches()
    while time.perf_counter() < end:
        pass
    return switches() - before


class PySpyRecording(FileRecording):
    """One py-spy at work, with its watchdog, its words and its file."""

    kind = "pyspy"

    def __init__(self, client: str) -> None:
        super().__init__(client)
        self.log = b""
        self.proven_at = 0.0
        self.forced = ""

    def unpack(self, program: bytes) -> str:
        """Put a py-spy that was sent beside the profile, with which it is deleted."""
        path = os.path.join(self.directory, "py-spy")
        with open(path, "wb") as file:
            file.write(program)
        os.chmod(path, 0o700)
        return path

    def launch(self, pyspy: str, guard: str, arguments: list[str]) -> None:
        """Start py-spy and its watchdog, both deaf to a Ctrl-C in the session's terminal."""
        allow_tracing(by_descendants=True)
        command = [pyspy, "record", "--pid", str(os.getpid()), "--output", self.path, *arguments]
        self.profiler = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        watched = (str(os.getpid()), str(self.profiler.pid), self.path)
        self.guard = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", guard, *watched],
            stdin=subprocess.PIPE,
            # Else it would hold the session's own open, were it to outlast that.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        assert self.profiler.stdout is not None
        os.set_blocking(self.profiler.stdout.fileno(), False)

    async def prove(self, ticks: int, interval: float, *, holds: bool, deadline: float) -> bool:
        """Keep this thread busy until py-spy has sampled it; False if it does not come to it.

        A py-spy that holds the process for each sample is seen at work by the thread itself;
        for another, so many intervals must pass.
        """
        while READY not in self.log:
            self.listen()
            if self.profiler.poll() is not None or time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.002)
        held, kept_s = 0, 0.0  # not by the clock: time in which the thread stood still is no proof
        while self.profiler.poll() is None and time.monotonic() < deadline:
            held += beacon(BEACON_S)
            kept_s += BEACON_S
            if (held if holds and COUNTS_HOLDS else kept_s / interval) >= ticks:
                self.proven_at = time.monotonic()
                return True
            await asyncio.sleep(0)
        return False

    def listen(self) -> None:
        """Take in what py-spy has said so far."""
        assert self.profiler.stdout is not None
        try:
            self.log += os.read(self.profiler.stdout.fileno(), 65536)
        except BlockingIOError:
            pass

    async def end(self, timeout: float) -> dict[str, Any]:
        """Interrupt, then terminate, then kill; the watchdog wakes a scheduler left stopped."""
        seconds = time.monotonic() - self.proven_at
        self.listen()
        is_early = self.profiler.poll() is not None or STOPPED in self.log
        ladder = ((signal.SIGINT, timeout), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0))
        for number, patience in ladder:
            if self.profiler.poll() is not None:
                break
            self.profiler.send_signal(number)
            if await self.ended(self.profiler, patience):
                break
            self.forced = f"py-spy did not end within {patience:g} s of {number.name}"
        return {"early": is_early, "seconds": seconds, **await self.outcome()}

    async def ended(self, process: subprocess.Popen[bytes], patience: float) -> bool:
        """Wait for a process's end without blocking the loop that py-spy profiles."""
        deadline = time.monotonic() + patience
        while process.poll() is None:
            if time.monotonic() > deadline:
                return False
            self.listen()
            await asyncio.sleep(0.002)
        return True

    async def outcome(self) -> dict[str, Any]:
        """What py-spy had to say, now that it is gone."""
        self.tell(ENDED)
        if self.profiler.returncode == -signal.SIGKILL:
            await self.ended(self.guard, 1.0)  # was it the watchdog, that ends next
        if self.guard.poll() == FORCED:
            self.forced = "the scheduler lay stopped for seconds; py-spy was killed to free it"
        self.listen()
        allow_tracing(by_descendants=False)
        log = self.log[-20000:].decode(errors="replace")
        return {"status": self.profiler.returncode, "forced": self.forced, "log": log}

    def tell(self, word: bytes) -> None:
        """Say a word to the watchdog."""
        assert self.guard.stdin is not None
        try:
            self.guard.stdin.write(word)
        except BrokenPipeError:
            pass  # it had to act already

    async def dismiss(self) -> list[str]:
        """Part with the watchdog, which may hang as any other process."""
        assert self.guard.stdin is not None
        assert self.profiler.stdout is not None
        self.tell(LEAVE)
        self.guard.stdin.close()
        is_deaf = not await self.ended(self.guard, GUARD_PATIENCE_S)
        if is_deaf:
            self.guard.kill()
            await self.ended(self.guard, GUARD_PATIENCE_S)
        self.profiler.stdout.close()
        return ["py-spy's watchdog did not answer and was killed"] if is_deaf else []


async def start(
    guard: str,
    program: bytes,
    arguments: list[str],
    interval: float,
    gil: bool,
    nonblocking: bool,
    timeout: float,
    client: str,
    dask_scheduler: Any = None,
) -> dict[str, Any]:
    """Start a recording and wait until it is proven that it samples every `interval`.

    By the py-spy that is installed here, or by the program that was sent. The answer holds a
    `token`, or a `problem` and its `log`.
    """
    if "pyspy" in under_way(dask_scheduler):
        return {"problem": "busy"}
    pyspy = find_pyspy()
    if pyspy is None and not program:
        return {"problem": "not-installed", "executable": sys.executable, "host": host()}
    recording = PySpyRecording(client)
    try:
        recording.launch(pyspy or recording.unpack(program), guard, arguments)
    except OSError as error:  # as where nothing in the directory may be executed
        recording.remove()
        allow_tracing(by_descendants=False)
        return {"problem": "not-started", "log": str(error)}
    keep(dask_scheduler, recording)
    deadline = time.monotonic() + timeout
    is_sure = KNOWS_THREADS and is_alone() and not (gil or nonblocking)
    ticks = TICKS if is_sure else UNSURE_TICKS
    if await recording.prove(ticks, interval, holds=not nonblocking, deadline=deadline):
        return begin(dask_scheduler, recording)
    answer = await recording.end(1.0)
    await forget(dask_scheduler, recording.token)
    return {"problem": "failed", **answer}
